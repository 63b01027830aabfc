// SPDX-License-Identifier: Apache-2.0
// image_kill_bench.hpp - a container in a named segment, its writer killed for real at every distinct image of an
// operation: the operation is stepped once to learn what it leaves in the segment and its peers file after each store,
// in a feed's ring and in the next generation of a table that grows, and then once more for each of these images, in a
// process of its own that dies there by SIGKILL. Lock, lease and names are as that death leaves them. Then, by name:
//   a reader      finds all that was there before the operation, or all that it does; verify() finds nothing
//   a writer      takes over and recovers, one of many also where it was there before and meets what the dead one held;
//                 never back from what a reader saw
//   the next one  of its operations works
// The *_step_tests look at the same images in copies, in every state of the containers' cores.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "golden/image_file.hpp"
#include "golden/subjects.hpp"
#include "image_kill_subjects.hpp"
#include "support/capability.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"

namespace holdfast::test::image_kill {

/// A file that others write, as it is now.
class watched_file {
 public:
    explicit watched_file(const std::string& path) {
        const rig::descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat about{};
        if (file.get() < 0 || ::fstat(file.get(), &about) != 0) return;
        size_ = static_cast<std::size_t>(about.st_size);
        if (size_ == 0) return;
        void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
        if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
        data_ = static_cast<const std::byte*>(at);
    }
    watched_file(const watched_file&) = delete;
    watched_file& operator=(const watched_file&) = delete;
    ~watched_file() {
        if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
    }
    void add_to(std::vector<std::byte>& image) const { image.insert(image.end(), data_, data_ + size_); }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Zeroes how long registered readers held a ring's writer up: nobody goes by it, and it is never the same twice.
inline void forget_time_blocked(std::span<std::byte> image) {
    layout::segment_header header;
    std::memcpy(&header, image.data(), sizeof header);
    if (static_cast<container_kind>(header.kind) != container_kind::broadcast) return;
    const auto geometry = layout::broadcast_geometry::parse(header.geometry, header.body_bytes, "the image");
    for (std::uint32_t reader = 0; reader < geometry.readers; ++reader) {
        const std::size_t at =
            layout::broadcast_geometry::report_offset(reader) + offsetof(layout::broadcast_report, blocked_ns);
        std::memset(image.data() + header_bytes + at, 0, 8);
    }
}

/// All that an operation stores in and all that it renames, as it is now.
class watched_place {
 public:
    watched_place(const subject& of, std::string uri) : of_(of), uri_(std::move(uri)) {}

    /// The first time once the operation is about to begin: before, not all of its files need be there.
    [[nodiscard]] std::vector<std::byte> image() {
        find_files();
        std::vector<std::byte> bytes;
        for (const auto& file : files_) {
            const std::size_t begin = bytes.size();
            file->add_to(bytes);
            if (file == files_[peers]) continue;
            forget_owner(std::span(bytes).subspan(begin));
            forget_time_blocked(std::span(bytes).subspan(begin));
        }
        for (const char c : names()) bytes.push_back(static_cast<std::byte>(c));
        return bytes;
    }
    /// Whether anything differs from when this was asked last.
    [[nodiscard]] bool touched() {
        find_files();
        std::string now = names();
        bool same = now == names_;
        std::size_t at = 0;
        for (const auto& file : files_) {
            const auto bytes = file->bytes();
            same = same && bytes.size() <= last_.size() - at &&
                   (bytes.empty() || std::memcmp(last_.data() + at, bytes.data(), bytes.size()) == 0);
            if (same) at += bytes.size();
        }
        if (same && at == last_.size()) return false;
        names_ = std::move(now);
        last_.clear();
        for (const auto& file : files_) file->add_to(last_);
        return true;
    }

 private:
    static constexpr std::size_t peers = 1;  // no segment itself

    void find_files() {
        if (!files_.empty()) return;
        const std::string path = uri_.substr(uri_.find(':') + 1);
        std::vector<std::string> paths = {path, path + ".peers"};
        if (of_.stores_also)
            for (std::string& more : of_.stores_also(uri_)) paths.push_back(std::move(more));
        for (const std::string& one : paths) files_.push_back(std::make_unique<watched_file>(one));
        for (std::size_t i = 0; i < files_.size(); ++i)
            if (i != peers && files_[i]->bytes().size() < header_bytes)
                throw std::runtime_error(paths[i] + " is no segment");
    }
    [[nodiscard]] std::string names() const { return of_.names ? of_.names(uri_) : std::string(); }

    const subject& of_;
    std::string uri_, names_;
    std::vector<std::unique_ptr<watched_file>> files_;
    std::vector<std::byte> last_;
};

/// An image is made where a byte has changed: most instructions change none.
struct look {
    watched_place& at;

    [[nodiscard]] std::vector<std::byte> operator()() const {
        (void)at.touched();
        return at.image();
    }
    [[nodiscard]] bool touched() const { return at.touched(); }
};

/// Who comes first behind a death, where reading takes: the writer then takes over in front of all that is there.
enum class comes_first { reader, writer };

// A container in a segment of files, made anew for each death, byte by byte the same.
class death_bench {
 public:
    explicit death_bench(const subject& of, comes_first first = comes_first::reader) : subject_(of), first_(first) {}

    image_kill_report kill_at_every_image_of(const operation& what) {
        return kill_at_every_image([&] { prepare(); }, [&] { return what.start(uri_); }, look_now{*this},
                                   [&](u64) { return survives(what); }, on_the_way::runs);
    }

 private:
    // At what is watched then.
    struct look_now {
        const death_bench& of;
        [[nodiscard]] std::vector<std::byte> operator()() const { return look{*of.watched_}(); }
        [[nodiscard]] bool touched() const { return of.watched_->touched(); }
    };
    void prepare() {
        watched_.reset();
        then_.emplace(golden_moment_ns, golden_seed);
        uri_ = place_.file_uri("s" + std::to_string(++made_));
        before_ = subject_.make(uri_);
        watched_ = std::make_unique<watched_place>(subject_, uri_);
    }

    std::string survives(const operation& what) {
        const std::vector<contents> states = states_of(what);
        std::function<void()> waiting;
        if (first_ == comes_first::writer) waiting = subject_.next.start(uri_);  // recovers
        const contents seen = subject_.read(uri_);
        if (what.evicted_max != 0) return goes_on_after_evicting(what, seen, states.back());
        contents both = before_;
        both.insert(states.back().begin(), states.back().end());
        const bool between = what.both_between && seen == both;
        const std::size_t seen_at = place_in(states, seen);
        if (seen_at == states.size() && !between)
            return (waiting ? "behind the next writer " : "") + ("a reader finds " + text_of_contents(seen));
        if (subject_.reading_takes) return goes_on_after_taking(waiting ? waiting : subject_.next.start(uri_));
        const auto next = subject_.next.start(uri_);  // recovers
        contents now = subject_.read(uri_);
        // What was under way may be finished; what a reader saw is never taken back.
        const std::size_t now_at = place_in(states, now);
        const bool right = between ? now == states.back() : now_at < states.size() && now_at - seen_at <= 1;
        if (!right) return "recovered: " + text_of_contents(now);
        next();
        subject_.next.apply(now);
        const contents found = subject_.read(uri_);
        return found == now ? "" : "after the next operation: " + text_of_contents(found);
    }
    /// Before the operation, and behind each part of it.
    [[nodiscard]] std::vector<contents> states_of(const operation& what) const {
        std::vector<contents> states{before_, before_};
        what.apply(states.back());
        for (const auto& more : what.then) {
            states.push_back(states.back());
            more(states.back());
        }
        return states;
    }
    [[nodiscard]] static std::size_t place_in(const std::vector<contents>& states, const contents& of) {
        return static_cast<std::size_t>(std::find(states.begin(), states.end(), of) - states.begin());
    }
    // Others went for the new one, each whole or not at all, and not again where a reader had missed it.
    std::string goes_on_after_evicting(const operation& what, const contents& seen, const contents& after) {
        const auto fault = [&](const contents& found, const contents& from, const contents& or_from) -> std::string {
            const auto has = [](const contents& of, const auto& entry) {
                const auto at = of.find(entry.first);
                return at != of.end() && at->second == entry.second;
            };
            for (const auto& entry : found)
                if (!has(from, entry) && !has(or_from, entry)) return "finds " + text_of_contents(found);
            u64 left = 1;  // the new one may be still to come
            for (const auto& entry : after) left += found.contains(entry.first) ? 1 : 0;
            return left + what.evicted_max >= after.size() ? "" : "misses too many: " + text_of_contents(found);
        };
        if (std::string wrong = fault(seen, before_, after); !wrong.empty()) return "a reader " + wrong;
        contents brought = after;
        for (const auto& entry : before_)
            if (brought[entry.first] == entry.second) brought.erase(entry.first);
        const auto next = subject_.next.start(uri_);  // recovers
        contents now = subject_.read(uri_);
        if (std::string wrong = fault(now, seen, brought); !wrong.empty()) return "recovered, a reader " + wrong;
        next();
        subject_.next.apply(now);
        const contents found = subject_.read(uri_);
        return found == now ? "" : "after the next operation: " + text_of_contents(found);
    }
    // All messages were taken by the reader before; the next one comes with the next number.
    std::string goes_on_after_taking(const std::function<void()>& next) {
        next();
        const contents found = subject_.read(uri_);
        if (found.size() != 1 || found.contains("damage")) return "the next message: " + text_of_contents(found);
        const auto& [number, text] = *found.begin();
        return text == number || text == "number " + number ? "" : "the next message: " + text_of_contents(found);
    }
    static std::string text_of_contents(const contents& of) {
        std::string text;
        for (const auto& [key, value] : of) text.append(key).append(": ").append(value).append("; ");
        return text;
    }

    const subject& subject_;
    comes_first first_;
    unique_directory place_{"image-kill"};
    scoped_environment registry_{"HOLDFAST_REGISTRY", place_.file("registry")};
    std::optional<still_world> then_;
    u64 made_ = 0;
    std::string uri_;
    contents before_;
    std::unique_ptr<watched_place> watched_;
};

/// Kills the writer at every image of each of the subject's operations.
inline void kill_in_every_operation(const subject& of) {
    if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    u64 kills = 0, steps = 0;
    for (const operation& what : of.operations) {
        const u64 repaired = of.repairs ? *of.repairs : 0;
        image_kill_report report = death_bench(of).kill_at_every_image_of(what);
        if (of.reading_takes) {
            EXPECT_TRUE(report.passed()) << what.name << ": " << report.failure;
            kills += report.kills, steps += report.steps;
            report = death_bench(of, comes_first::writer).kill_at_every_image_of(what);
        }
        EXPECT_TRUE(report.passed()) << what.name << ": " << report.failure;
        EXPECT_GT(report.images, 1U) << what.name << ": its stores were not seen";
        if (of.repairs) {
            EXPECT_GT(*of.repairs, repaired) << what.name << ": nobody had to finish it";
        }
        kills += report.kills, steps += report.steps;
        std::printf("%s, %s: %llu images and kills, %.2f s\n", of.name, what.name,
                    static_cast<unsigned long long>(report.kills), report.seconds);
    }
    ::testing::Test::RecordProperty("kills", std::to_string(kills));
    ::testing::Test::RecordProperty("steps", std::to_string(steps));
}

class ImageKill : public ::testing::TestWithParam<subject> {
 public:
    static std::string name_of(const ::testing::TestParamInfo<subject>& s) { return s.param.name; }
};

}  // namespace holdfast::test::image_kill
