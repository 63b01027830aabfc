// SPDX-License-Identifier: Apache-2.0
// Sketches of the Rust registry and HdrHistogram for C, from the libraries that bench/metrics/peers/build makes. They
// are opened at run time, so that this builds without any of it; of a library that is missing, each peer is named as
// skipped with the reason.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers.hpp"

namespace holdfast::bench {

namespace {

/// The C interface of bench/metrics/peers/rust/src/lib.rs, which hdr_histogram_c.c has as well.
struct sketch_library {
    std::uint32_t (*kinds)() = nullptr;
    const char* (*name)(std::uint32_t) = nullptr;
    const char* (*version)(std::uint32_t) = nullptr;
    void* (*make)(std::uint32_t) = nullptr;
    void (*free)(void*) = nullptr;
    void (*record)(void*, const std::uint64_t*, std::size_t) = nullptr;
    double (*quantile)(void*, double) = nullptr;
    std::size_t (*bytes)(void*) = nullptr;
};

class foreign_sketch final : public workload::quantile_method {
 public:
    foreign_sketch(const sketch_library& library, std::uint32_t kind)
        : library_(&library), sketch_(library.make(kind)) {}
    foreign_sketch(const foreign_sketch&) = delete;
    foreign_sketch& operator=(const foreign_sketch&) = delete;
    ~foreign_sketch() override { library_->free(sketch_); }
    void record(std::span<const std::uint64_t> values) override {
        library_->record(sketch_, values.data(), values.size());
    }
    double quantile(double q) override { return library_->quantile(sketch_, q); }
    std::size_t bytes() const override { return library_->bytes(sketch_); }

 private:
    const sketch_library* library_;
    void* sketch_;
};

/// Where bench/run has the peers built: beside the folder of this build, unless the environment says where.
[[nodiscard]] std::filesystem::path folder() {
    if (const char* const given = std::getenv("HOLDFAST_METRICS_PEERS")) return given;
    std::error_code failed;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
    return program.parent_path().parent_path().parent_path() / "peers/metrics";
}

[[nodiscard]] bool load(const std::string& name, sketch_library& library, std::string& reason) {
    const auto path = folder() / ("libholdfast_" + name + ".so");
    std::ifstream said(folder() / (name + ".missing"));
    std::getline(said, reason);
    if (!std::filesystem::exists(path)) {
        if (reason.empty()) reason = "not built; bench/metrics/peers/build builds it, and ./dev bench calls that";
        return false;
    }
    void* const opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: kinds refer to it
    if (opened == nullptr) {
        reason = ::dlerror();
        return false;
    }
    bool whole = true;
    const auto find = [&](auto& function, const char* symbol) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(opened, symbol));
        whole = whole && function != nullptr;
    };
    find(library.kinds, "sketch_kinds");
    find(library.name, "sketch_name");
    find(library.version, "sketch_version");
    find(library.make, "sketch_new");
    find(library.free, "sketch_free");
    find(library.record, "sketch_record");
    find(library.quantile, "sketch_quantile");
    find(library.bytes, "sketch_bytes");
    if (!whole) reason = path.string() + " is from another version of this tree; build it anew";
    return whole;
}

}  // namespace

std::vector<workload::metrics_kind> metrics_kinds(std::vector<absent_peer>& absent) {
    struct source {
        std::string name;
        std::vector<std::string> peers;  // by the names under which they are missed
        sketch_library library = {};
    };
    static std::array<source, 2> sources{{{"sketches",
                                           {"HdrHistogram (Rust)", "DDSketch (Rust)",
                                            "t-digest (Apache DataSketches, Rust)", "KLL (Apache DataSketches, Rust)"}},
                                          {"hdr_histogram_c", {"HdrHistogram (C)"}}}};  // outlives all kinds
    std::vector<workload::metrics_kind> kinds = workload::own_metrics_kinds();
    for (source& from : sources) {
        const sketch_library& library = from.library;
        std::string reason;
        if (!load(from.name, from.library, reason)) {
            for (const std::string& peer : from.peers) absent.push_back({peer, reason});
            continue;
        }
        for (std::uint32_t kind = 0; kind < library.kinds(); ++kind)
            kinds.push_back({library.name(kind), library.version(kind), true, [kind, &library](double, std::size_t) {
                                 return std::make_unique<foreign_sketch>(library, kind);
                             }});
    }
    return kinds;
}

}  // namespace holdfast::bench
