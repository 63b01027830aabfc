// SPDX-License-Identifier: Apache-2.0
// output_file.hpp - the file that -o names: replaced whole or not at all, and nothing but plain files is replaced.
//
// (I1) A plain file, or a name that is free, gets its new contents by a rename: nobody finds half of them, and after a
//      failure the old file is as it was. Contents are synced before the rename and the folder after it, so a power
//      loss is no exception. Links are followed first, so the file behind a link is replaced and never the link.
// (I2) What is no plain file (a device, a FIFO, a terminal) is written to where it is.
// (I3) The file in the making has no name until it is complete, so a program that is killed leaves nothing (between the
//      last two steps, the link and the rename, a hidden file of a random name). Where the file system has no unnamed
//      files (O_TMPFILE) it has that name from the start, made by O_EXCL: no link that someone planted is followed, and
//      two programs never write into one.
// A file that is replaced keeps its owner and mode; a new one has the mode that the umask leaves of the one asked for.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace holdfast::cli {

class output_file {
 public:
    /// Throws: an error that names the path when it cannot be written, or not with the owner that it has.
    explicit output_file(std::string path, mode_t new_mode = 0666);
    output_file(const output_file&) = delete;
    output_file& operator=(const output_file&) = delete;
    /// Without finish() takes the file in the making away.
    ~output_file();

    void write(std::string_view text);
    /// Puts the file in its place. Throws: when not everything could be written.
    void finish();

    /// Whether a plain file is replaced, rather than a device or a FIFO written to.
    [[nodiscard]] bool replaces() const noexcept { return !target_.empty(); }

 private:
    void open();
    [[nodiscard]] int make();
    template <class Make>
    [[nodiscard]] int make_beside(Make make);
    [[nodiscard]] bool publish();

    std::string path_;    // as it was given
    mode_t new_mode_;     // of a file that was not there
    std::string target_;  // behind all links; empty: written in place
    std::string making_;  // its hidden name beside the target; empty: it has none
    std::FILE* file_ = nullptr;
};

}  // namespace holdfast::cli
