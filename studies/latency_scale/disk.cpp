// SPDX-License-Identifier: Apache-2.0
// disk.cpp - a file in the chosen folder: through the page cache, past it, and down to the disk.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <system_error>

#include "published.hpp"
#include "scale.hpp"

namespace study {
namespace {

constexpr std::size_t page = 4096;

[[noreturn]] void give_up(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// A file that has no name any more when this is made, so that nothing is left of it.
class nameless_file {
 public:
    explicit nameless_file(const std::string& folder, std::size_t bytes) : path_(folder + "/latency_scale-XXXXXX") {
        fd_ = ::mkostemp(path_.data(), O_CLOEXEC);
        if (fd_ < 0) give_up(path_.c_str());
        direct_ = ::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
        direct_error_ = direct_ < 0 ? errno : 0;
        ::unlink(path_.c_str());
        const std::string block(std::size_t{1} << 20U, 'x');
        for (std::size_t at = 0; at < bytes; at += block.size())
            if (::pwrite(fd_, block.data(), block.size(), static_cast<off_t>(at)) != static_cast<ssize_t>(block.size()))
                give_up("pwrite");
        if (::fsync(fd_) != 0) give_up("fsync");
    }
    ~nameless_file() {
        ::close(fd_);
        if (direct_ >= 0) ::close(direct_);
    }
    nameless_file(const nameless_file&) = delete;
    nameless_file& operator=(const nameless_file&) = delete;

    [[nodiscard]] int fd() const noexcept { return fd_; }
    [[nodiscard]] int direct() const noexcept { return direct_; }  ///< below 0: past the page cache is not to be had
    [[nodiscard]] int direct_error() const noexcept { return direct_error_; }

 private:
    std::string path_;
    int fd_ = -1, direct_ = -1, direct_error_ = 0;
};

/// What the folder lies on.
std::string file_system_of(const std::string& folder) {
    struct statfs found{};
    if (::statfs(folder.c_str(), &found) != 0) return "an unknown file system";
    switch (static_cast<unsigned long>(found.f_type)) {
        case TMPFS_MAGIC: return "tmpfs, which is memory: no disk is behind it";
        case EXT4_SUPER_MAGIC: return "ext4";
        case XFS_SUPER_MAGIC: return "xfs";
        case BTRFS_SUPER_MAGIC: return "btrfs";
        case OVERLAYFS_SUPER_MAGIC: return "overlayfs";
        case NFS_SUPER_MAGIC: return "nfs";
        default: break;
    }
    char text[40];
    std::snprintf(text, sizeof text, "file system %#lx", static_cast<unsigned long>(found.f_type));
    return text;
}

void time_files(scale& all, const nameless_file& file, std::size_t pages, const std::string& where) {
    std::mt19937 random(1);
    const auto somewhere = [&random, pages] { return static_cast<off_t>(random() % pages * page); };
    // Direct reads want an aligned buffer.
    const std::unique_ptr<char, void (*)(void*)> buffer(static_cast<char*>(std::aligned_alloc(page, page)), std::free);
    std::memset(buffer.get(), 'y', page);
    all.time({"4 KiB read from the page cache", "pread at random, " + where, {}}, [&](std::uint64_t n) {
        for (; n > 0; --n)
            if (::pread(file.fd(), buffer.get(), page, somewhere()) != page) give_up("pread");
    });
    all.time({"4 KiB written to the page cache", "pwrite over what is there, " + where, {}}, [&](std::uint64_t n) {
        for (; n > 0; --n)
            if (::pwrite(file.fd(), buffer.get(), page, somewhere()) != page) give_up("pwrite");
    });
    if (::fsync(file.fd()) != 0) give_up("fsync");
    step read{"4 KiB read from the disk",
              "pread at random past the page cache, " + where,
              {gregg(50 * us, 150 * us), dean(150 * us)}};
    if (file.direct() < 0)
        all.miss(std::move(read), std::string("O_DIRECT: ").append(std::strerror(file.direct_error())));
    else
        all.time(std::move(read), [&](std::uint64_t n) {
            for (; n > 0; --n)
                if (::pread(file.direct(), buffer.get(), page, somewhere()) != page) give_up("pread with O_DIRECT");
        });
    all.time({"4 KiB written and on the disk", "pwrite and fdatasync, " + where, {}}, [&](std::uint64_t n) {
        for (; n > 0; --n)
            if (::pwrite(file.fd(), buffer.get(), page, somewhere()) != page || ::fdatasync(file.fd()) != 0)
                give_up("pwrite and fdatasync");
    });
}

}  // namespace

void time_disk(scale& all) {
    const std::string where = file_system_of(all.options().folder);
    const std::size_t pages = all.options().quick ? 1024 : 65536;
    try {
        const nameless_file file(all.options().folder, pages * page);
        time_files(all, file, pages, where);
    } catch (const std::exception& wrong) {
        all.miss({"files and the disk", where, {}}, wrong.what());
    }
}

void add_far_away(scale& all) {
    const char* const why = "needs another machine";
    all.miss({"2 KB sent over a network of 1 Gbit/s", "", {norvig(20 * us)}}, why);
    all.miss({"round trip within a datacenter", "", {dean(500 * us)}}, why);
    all.miss({"read from a rotating disk", "", {gregg(1 * ms, 10 * ms), norvig(8 * ms)}}, "needs such a disk");
    all.miss({"San Francisco to New York", "", {gregg(40 * ms)}}, why);
    all.miss({"San Francisco to the United Kingdom", "", {gregg(81 * ms)}}, why);
    all.miss({"United States to Europe and back", "", {norvig(150 * ms)}}, why);
    all.miss({"San Francisco to Australia", "", {gregg(183 * ms)}}, why);
    all.miss({"TCP packet sent again", "", {gregg(1 * s, 3 * s)}}, "a rule of the protocol, not a time of a machine");
    const char* const reboot = "this machine is not started anew for a study";
    all.miss({"reboot of a container's system", "", {gregg(4 * s)}}, reboot);
    all.miss({"SCSI command given up", "", {gregg(30 * s)}}, "a rule of the driver, not a time of a machine");
    all.miss({"reboot of a virtual machine", "", {gregg(40 * s)}}, reboot);
    all.miss({"reboot of a physical machine", "", {gregg(300 * s)}}, reboot);
}

}  // namespace study
