// SPDX-License-Identifier: Apache-2.0
// golden.cpp FOLDER - segments and saved files of layout v1, as another processor wrote them, on this one: what its
// readers and its next writer find in each image, what it saves of it, what it restores, and what it makes itself. All
// of it is byte by byte what is noted in FOLDER. Run by an emulator; exits with 0 if all agree.
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "golden/contents.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

class comparison {
 public:
    explicit comparison(std::string folder) : folder_(std::move(folder)) {}

    void compare(const golden_subject& of) {
        const std::string stem = folder_ + "/" + of.name;
        agree(of, "its contents", text_of_file(stem + ".txt"),
              [&] { return contents_of(of, golden_image::load(stem), "file"); });
        agree(of, "what is saved of it", text_of_file(stem + ".saved"),
              [&] { return saved_of(golden_image::load(stem)); });
        agree(of, "what is restored", text_of_file(stem + ".restored.txt"),
              [&] { return restored_contents_of(of, stem + ".saved"); });
        agree(of, "what is made", "", [&] { return difference(made(of), golden_image::load(stem).data); });
        for (const std::string& killed : {stem + "_killed", stem + "_growing"})
            if (path_exists(killed + ".image"))
                agree(of, "its contents after a kill", text_of_file(killed + ".txt"),
                      [&] { return contents_of(of, golden_image::load(killed), "file"); });
    }
    [[nodiscard]] int compared() const noexcept { return compared_; }
    [[nodiscard]] int wrong() const noexcept { return wrong_; }

 private:
    template <class Find>
    void agree(const golden_subject& of, const char* what, const std::string& expected, Find&& find) {
        const still_world then(golden_moment_ns, golden_seed);
        std::string found;
        try {
            found = find();
        } catch (const std::exception& refused) {
            found = refused.what();
        }
        ++compared_;
        if (found == expected) return;
        ++wrong_;
        std::printf("%s: %s differs. Expected:\n%s\nfound:\n%s\n", of.name, what, expected.c_str(), found.c_str());
    }
    [[nodiscard]] static image_bytes made(const golden_subject& of) {
        const unique_directory place("golden");
        of.make(place.file_uri("s"));
        return golden_image::of_file_segment(place.file("s")).data;
    }

    std::string folder_;
    int compared_ = 0, wrong_ = 0;
};

}  // namespace

int main(int count, char** words) {
    if (count != 2) return std::fprintf(stderr, "usage: golden FOLDER\n"), 2;
    comparison all(words[1]);
    for (const golden_subject& of : golden_subjects) all.compare(of);
    std::printf("%d compared, %d differ\n", all.compared(), all.wrong());
    return all.wrong() == 0 ? 0 : 1;
}
