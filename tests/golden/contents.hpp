// SPDX-License-Identifier: Apache-2.0
// contents.hpp - what a golden image says when it lies in memory of a kind: to its readers, and after its next writer;
// what is saved of it, and what a segment says that was restored from that.
#pragma once

#include <string>
#include <string_view>

#include "golden/image_file.hpp"
#include "golden/subjects.hpp"
#include "inspect/saver.hpp"
#include "support/unique_name.hpp"

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

/// The file of `holdfast save`. Requires: a still_world.
[[nodiscard]] inline std::string saved_of(const golden_image& image) {
    const placed_image from("file", image);
    const still_boot whole_second;  // as what a map's entries have left to live was reckoned from
    std::string saved;
    (void)inspect::save(from.uri(), [&](std::string_view part) { saved.append(part); });
    return saved;
}

/// What is read out of the segment that `holdfast restore` makes of a file. Requires: a still_world.
[[nodiscard]] inline std::string restored_contents_of(const golden_subject& subject, const std::string& file) {
    const still_boot whole_second;  // at which all of a map's entries are put in
    world.random_drawn = 0;
    const unique_directory place("restored");
    (void)inspect::restore(file, place.file_uri("s"), {});
    return subject.describe(place.file_uri("s"));
}

}  // namespace holdfast::test
