// SPDX-License-Identifier: Apache-2.0
// Sketches of the Rust registry and HdrHistogram for C, from the libraries that bench/metrics/peers/build makes. They
// are opened at run time, so that this builds without any of it; of a library that is missing, each peer is named as
// skipped with the reason.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers.hpp"
#include "bench/registry_library.hpp"

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

[[nodiscard]] bool load(const std::string& name, sketch_library& library, std::string& reason) {
    registry_library file("metrics", name);
    file.find(library.kinds, "sketch_kinds");
    file.find(library.name, "sketch_name");
    file.find(library.version, "sketch_version");
    file.find(library.make, "sketch_new");
    file.find(library.free, "sketch_free");
    file.find(library.record, "sketch_record");
    file.find(library.quantile, "sketch_quantile");
    file.find(library.bytes, "sketch_bytes");
    reason = file.reason();
    return file.whole();
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
