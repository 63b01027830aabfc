// SPDX-License-Identifier: Apache-2.0
// contents.hpp - what a golden image says when it lies in memory of a kind: to its readers, and after its next writer.
#pragma once

#include <string>

#include "golden/image_file.hpp"
#include "golden/subjects.hpp"

namespace holdfast::test {

/// Readers may take what they find, so each part has the image afresh. Requires: a still_world, whose clock is put a
/// second behind the images' making.
[[nodiscard]] inline std::string contents_of(const golden_subject& subject, const golden_image& image,
                                             const std::string& kind) {
    std::string text;
    {
        const placed_image read(kind, image);
        text = subject.describe(read.uri());
    }
    const placed_image written(kind, image);
    world.frozen_ns = golden_moment_ns + 1'000'000'000;
    subject.go_on(written.uri());
    text.append("\n== after the next writer ==\n");
    return text.append(subject.describe(written.uri()));
}

}  // namespace holdfast::test
