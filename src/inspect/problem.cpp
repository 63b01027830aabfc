// SPDX-License-Identifier: Apache-2.0
#include "inspect/problem.hpp"

namespace holdfast::inspect {

std::string_view code_name(errc code) noexcept {
    switch (code) {
        case errc::not_found: return "not_found";
        case errc::already_exists: return "already_exists";
        case errc::not_ready: return "not_ready";
        case errc::bad_magic: return "bad_magic";
        case errc::version_mismatch: return "version_mismatch";
        case errc::kind_mismatch: return "kind_mismatch";
        case errc::schema_mismatch: return "schema_mismatch";
        case errc::geometry_mismatch: return "geometry_mismatch";
        case errc::truncated: return "truncated";
        case errc::corrupt: return "corrupt";
        case errc::writer_alive: return "writer_alive";
        case errc::no_permission: return "no_permission";
        case errc::no_space: return "no_space";
        case errc::no_huge_pages: return "no_huge_pages";
        case errc::unsafe_file: return "unsafe_file";
        case errc::invalid_name: return "invalid_name";
        case errc::invalid_argument: return "invalid_argument";
        case errc::read_only: return "read_only";
        case errc::forked: return "forked";
        case errc::unsupported: return "unsupported";
        case errc::io: return "io";
        case errc::contended: return "contended";
    }
    return "io";
}

problem problem_of(const error& failure) {
    std::string text = failure.what();
    const std::string before = failure.subject() + ": ";
    const std::string after = " (" + failure.code().message() + ")";
    if (text.starts_with(before)) text.erase(0, before.size());
    if (text.ends_with(after)) text.resize(text.size() - after.size());
    return {failure.reason(), std::move(text)};
}

}  // namespace holdfast::inspect
