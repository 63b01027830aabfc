// SPDX-License-Identifier: Apache-2.0
// inflate_model.hpp - what a deflated message says, rule by rule from RFC 1951 and RFC 7692, a bit at a time and
// without zlib; and a writer of such bits, also of such as no compressor makes.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::test {

enum class inflated { ok, corrupt, too_big };

struct inflated_message {
    inflated verdict = inflated::ok;
    std::string message;           // so far
    std::size_t distance_max = 0;  // the furthest that was looked back
};

class inflate_model {
 public:
    /// `payload`: of all frames of a message.
    [[nodiscard]] static inflated_message of(std::string_view payload, std::size_t bytes_max = 1U << 30U) {
        inflate_model model(std::string(payload).append("\x00\x00\xFF\xFF", 4), bytes_max);
        if (payload.empty()) return {};
        try {
            while (model.at_ != 8 * model.bytes_.size()) model.block();
        } catch (const inflated why) {
            model.result_.verdict = why;
        }
        return model.result_;
    }

 private:
    inflate_model(std::string bytes, std::size_t bytes_max) : bytes_(std::move(bytes)), bytes_max_(bytes_max) {}

    // The symbols of a prefix code, by length and code. (RFC 1951 section 3.2.2)
    class prefix_code {
     public:
        explicit prefix_code(const std::vector<unsigned>& lengths, bool may_be_incomplete = true) {
            std::size_t used = 0, short_ones = 0, space = 1U << 15U;
            for (const unsigned length : lengths) {
                if (length == 0) continue;
                ++used;
                short_ones += length == 1 ? 1 : 0;
                const std::size_t part = std::size_t{1} << (15U - length);
                if (part > space) throw inflated::corrupt;
                space -= part;
            }
            // Not all codes are taken: fit for a single symbol, or none.
            if (space != 0 && (!may_be_incomplete || used != short_ones)) throw inflated::corrupt;
            unsigned code = 0;
            for (unsigned length = 1; length <= 15; ++length, code *= 2)
                for (unsigned symbol = 0; symbol < lengths.size(); ++symbol)
                    if (lengths[symbol] == length) symbols_[{length, code++}] = symbol;
        }
        [[nodiscard]] unsigned next(inflate_model& from) const {
            unsigned code = 0;
            for (unsigned length = 1; length <= 15; ++length) {
                code = 2 * code + from.bits(1);
                if (const auto found = symbols_.find({length, code}); found != symbols_.end()) return found->second;
            }
            throw inflated::corrupt;
        }

     private:
        std::map<std::pair<unsigned, unsigned>, unsigned> symbols_;
    };

    unsigned bits(unsigned count) {
        unsigned value = 0;
        for (unsigned i = 0; i < count; ++i, ++at_) {
            if (at_ == 8 * bytes_.size()) throw inflated::corrupt;  // it ends within a block
            value |= (static_cast<unsigned char>(bytes_[at_ / 8]) >> (at_ % 8) & 1U) << i;
        }
        return value;
    }
    void to_byte() { at_ = (at_ + 7) / 8 * 8; }
    void put(char byte) {
        if (result_.message.size() == bytes_max_) throw inflated::too_big;
        result_.message.push_back(byte);
    }

    void block() {
        const bool last = bits(1) != 0;
        switch (bits(2)) {
            case 0: stored(); break;
            case 1: {
                std::vector<unsigned> lengths(288, 8);
                for (std::size_t i = 144; i < 256; ++i) lengths[i] = 9;
                for (std::size_t i = 256; i < 280; ++i) lengths[i] = 7;
                static const prefix_code literals(lengths), distances(std::vector<unsigned>(32, 5));
                coded(literals, distances);
                break;
            }
            case 2: dynamic(); break;
            default: throw inflated::corrupt;
        }
        if (!last) return;
        to_byte();
        begin_ = result_.message.size();
    }

    void stored() {
        to_byte();
        const unsigned size = bits(16);
        if (bits(16) != (size ^ 0xFFFFU)) throw inflated::corrupt;
        for (unsigned i = 0; i < size; ++i) put(static_cast<char>(bits(8)));
    }

    void dynamic() {
        const unsigned literals = 257 + bits(5), distances = 1 + bits(5), length_codes = 4 + bits(4);
        if (literals > 286 || distances > 30) throw inflated::corrupt;
        constexpr std::array<unsigned, 19> order{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
        std::vector<unsigned> lengths(19, 0);
        for (unsigned i = 0; i < length_codes; ++i) lengths[order[i]] = bits(3);
        const prefix_code lengths_code(lengths, false);
        std::vector<unsigned> all;
        while (all.size() < literals + distances) {
            const unsigned symbol = lengths_code.next(*this);
            if (symbol < 16) {
                all.push_back(symbol);
                continue;
            }
            if (symbol == 16 && all.empty()) throw inflated::corrupt;
            const unsigned value = symbol == 16 ? all.back() : 0;
            const unsigned times = symbol == 16 ? 3 + bits(2) : symbol == 17 ? 3 + bits(3) : 11 + bits(7);
            all.insert(all.end(), times, value);
        }
        if (all.size() > literals + distances || all[256] == 0) throw inflated::corrupt;
        const auto border = all.begin() + literals;
        coded(prefix_code({all.begin(), border}), prefix_code({border, all.end()}));
    }

    void coded(const prefix_code& literals, const prefix_code& distances) {
        while (true) {
            const unsigned symbol = literals.next(*this);
            if (symbol == 256) return;
            if (symbol < 256) {
                put(static_cast<char>(symbol));
                continue;
            }
            if (symbol > 285) throw inflated::corrupt;
            // Section 3.2.5: four lengths a row, each row of twice as many bytes as the one before.
            const unsigned row = symbol < 265 ? 0 : (symbol - 261) / 4;
            unsigned length = symbol < 265 ? symbol - 254 : 3 + (4U << row) + ((symbol - 261) % 4 << row);
            if (symbol == 285)
                length = 258;
            else
                length += bits(row);
            const unsigned far = distances.next(*this);
            if (far > 29) throw inflated::corrupt;
            const unsigned extra = far < 4 ? 0 : far / 2 - 1;
            const std::size_t distance = (far < 4 ? far + 1 : 1 + ((2U + far % 2) << extra)) + bits(extra);
            if (distance > result_.message.size() - begin_) throw inflated::corrupt;
            if (distance > result_.distance_max) result_.distance_max = distance;
            for (; length != 0; --length) put(result_.message[result_.message.size() - distance]);
        }
    }

    std::string bytes_;
    std::size_t bytes_max_;
    std::size_t at_ = 0;     // in bits
    std::size_t begin_ = 0;  // of the message, of the stream under way: none looks back before it
    inflated_message result_;
};

/// Writes blocks bit by bit.
class deflate_bits {
 public:
    deflate_bits& bits(unsigned value, unsigned count) {
        for (unsigned i = 0; i < count; ++i, ++at_) {
            if (at_ % 8 == 0) bytes_.push_back('\0');
            if ((value >> i & 1U) != 0) bytes_.back() = static_cast<char>(bytes_.back() | 1 << at_ % 8);
        }
        return *this;
    }
    /// Of a code, whose first bit is its highest.
    deflate_bits& code(unsigned value, unsigned count) {
        for (unsigned i = count; i-- != 0;) bits(value >> i & 1U, 1);
        return *this;
    }
    deflate_bits& begin_block(bool last, unsigned type) { return bits(last ? 1 : 0, 1).bits(type, 2); }
    /// In a block of the fixed code: a literal, or the end of the block.
    deflate_bits& fixed(unsigned symbol) {
        if (symbol < 144) return code(0x30 + symbol, 8);
        if (symbol < 256) return code(0x190 + symbol - 144, 9);
        return symbol < 280 ? code(symbol - 256, 7) : code(0xC0 + symbol - 280, 8);
    }
    deflate_bits& to_byte() {
        at_ = 8 * bytes_.size();
        return *this;
    }
    deflate_bits& stored(bool last, std::string_view text) {
        begin_block(last, 0).to_byte();
        const auto size = static_cast<unsigned>(text.size());
        bits(size, 16).bits(size ^ 0xFFFFU, 16);
        for (const char c : text) bits(static_cast<unsigned char>(c), 8);
        return *this;
    }
    /// The payload of a message: an empty stored block begins, whose end is left out.
    [[nodiscard]] std::string payload() { return begin_block(false, 0).to_byte().bytes_; }
    [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
    std::string bytes_;
    std::size_t at_ = 0;
};

}  // namespace holdfast::test
