// SPDX-License-Identifier: Apache-2.0
// record.hpp - plain C++ structs that describe themselves: schema, text and JSON, without macros or generated code.
//
//     struct range { holdfast::ipv4 low, high; char country[2]; };
//     holdfast::schema_of<range>().text();   // {low:ipv4@0,high:ipv4@4,country:char[2]@8}#12
//
//   record/types.hpp    ipv4, ipv6, timestamp, fixed_text
//   record/field.hpp    one field as data, and how its type is spelled
//   record/schema.hpp   record_schema, container_schema: text, parse, compare
//   record/concepts.hpp concepts record and record_key; HOLDFAST_RECORD in record/macro.hpp
//   record/reflect.hpp  schema_of<T>()
//   record/untrusted.hpp a record out of bytes that another process wrote
//   record/text.hpp     one field to and from text
//   record/json.hpp     a record or an entry to JSON (JSON to a record needs a parser: src/inspect)
//
// Limits, and what they are good for: docs/design/0003-records.md.
#pragma once

#include "holdfast/record/concepts.hpp"   // IWYU pragma: export
#include "holdfast/record/field.hpp"      // IWYU pragma: export
#include "holdfast/record/json.hpp"       // IWYU pragma: export
#include "holdfast/record/macro.hpp"      // IWYU pragma: export
#include "holdfast/record/reflect.hpp"    // IWYU pragma: export
#include "holdfast/record/schema.hpp"     // IWYU pragma: export
#include "holdfast/record/text.hpp"       // IWYU pragma: export
#include "holdfast/record/types.hpp"      // IWYU pragma: export
#include "holdfast/record/untrusted.hpp"  // IWYU pragma: export
