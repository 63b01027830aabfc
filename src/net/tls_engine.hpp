// SPDX-License-Identifier: Apache-2.0
// tls_engine.hpp - an engine with TLS: a sink towards the engine that carries bytes, an engine towards the server.
//
// Connections of listeners without TLS pass through. Of the others, each session (tls_session.hpp) turns what was
// received into what was said, and what is sent into records; the engine below keeps its ways of receiving and sending.
// (S1) What engine.hpp promises holds, but: `unsent` counts encrypted bytes, and grows also by what TLS itself says.
// (S2) A session is made when the first record of a handshake has come whole, and freed when our side is shut: who only
//      connects, or sends a part of a hello, costs a place and what it sent.
// (S3) In the handshake a client may send handshake_bytes_max. Later it may make us say own_bytes_max (answers to key
//      updates and to attempts to renegotiate) without taking any of it, and send tls_silent_records_max records in a
//      row that say nothing (tls_session.hpp).
// (S4) Sends from within a report leave together, behind the last record of what was received.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "engine.hpp"
#include "holdfast/net/tls.hpp"

namespace holdfast::net {

inline constexpr std::size_t tls_handshake_bytes_max = 32U << 10U;
inline constexpr std::size_t tls_own_bytes_max = 16U << 10U;

/// `make` makes the engine below, which reports to the sink it is given.
[[nodiscard]] std::unique_ptr<engine> make_tls_engine(engine_sink& sink, std::vector<tls_listener> listeners,
                                                      const std::function<std::unique_ptr<engine>(engine_sink&)>& make);

}  // namespace holdfast::net
