// SPDX-License-Identifier: Apache-2.0
// file_options.hpp - how response::file() opens and describes a file, and what came of it.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast::net {

/// What the entity tag of a file promises. It is made of the file's number, size, and times of change.
enum class file_tag : std::uint8_t {
    /// Strong once the file was left alone for two seconds, weak before. A tag is strong if no two versions of
    /// different
    /// bytes ever have the same (RFC 9110 section 8.8.1). The kernel stamps a file when it is written to, in steps of
    /// some milliseconds, so of two writes within a step the second may leave no trace; a stamp that is two seconds old
    /// has no such second write still to come. That holds for files written to by write() on a local file system, or
    /// replaced, whose clock is not set back; not for those changed through a shared mapping.
    by_age,
    weak,  ///< never strong: of network file systems, and of files changed through a mapping. If-Range never holds
    none,  ///< no ETag; Last-Modified stays
};

struct file_options {
    std::string_view content_type = "application/octet-stream";  ///< empty: no such field
    bool follow_links = false;  ///< a path that ends in a symbolic link is refused unless this is set
    bool ranges = true;         ///< 206 and 416; else every answer is whole
    file_tag tag = file_tag::by_age;
    /// A descriptor of a folder that the path cannot leave, neither by "..", nor by "/", nor by a link (openat2); it
    /// stays the caller's. No link inside is followed unless follow_links is set. -1: the path is opened as it is, and
    /// only its last part is looked at for a link. A path that a client has a say in belongs under a folder.
    int folder = -1;
};

enum class file_outcome : std::uint8_t {
    sent,           ///< the response is the file, or what the request's conditions made of it: 200, 206, 304, 412, 416
    not_found,      ///< 404; also what leaves the folder, or is a link that is not followed
    not_a_file,     ///< 404: a directory, FIFO, socket or device
    forbidden,      ///< 403
    no_descriptor,  ///< 503: the process or the system is out of them, or files_max are open
    failed,         ///< 500; errno says why
};

}  // namespace holdfast::net
