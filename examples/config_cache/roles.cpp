// SPDX-License-Identifier: Apache-2.0
#include "roles.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "holdfast/hash_map.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/snapshot.hpp"

namespace config_cache {

namespace {

using namespace holdfast;
using tariffs = snapshot<tariff>;
using cache = hash_map<question>;

constexpr std::chrono::seconds answer_ttl(1);

/// A killed predecessor holds its lease until the kernel has torn it down.
attach_options patiently() {
    attach_options options;
    options.lease_timeout = std::chrono::seconds(10);
    return options;
}

/// A message to the keeper: the question, then the answer.
std::vector<std::byte> message_of(const question& asked, const std::string& text) {
    std::vector<std::byte> message(sizeof asked + text.size());
    std::memcpy(message.data(), &asked, sizeof asked);
    std::memcpy(message.data() + sizeof asked, text.data(), text.size());
    return message;
}

void keep(cache& answers, const counts& count, std::span<const std::byte> message) {
    question asked;
    if (message.size() < sizeof asked) return count.refused.add(1);
    std::memcpy(&asked, message.data(), sizeof asked);
    const bool kept = static_cast<bool>(answers.set(asked, message.subspan(sizeof asked), {.ttl = answer_ttl}));
    (kept ? count.kept : count.refused).add(1);
}

/// Light shipments are common, heavy ones are rare.
question draw(std::mt19937_64& random, std::uint64_t edition) {
    const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
    return {edition, below(zones), 1 + below(1 + below(shipment_kg_max))};
}

}  // namespace

void make_shared(const std::string& name, unsigned workers) {
    (void)counter_set::create(counts_of(name), {.capacity = 32});
    (void)tariffs::create(tariff_of(name)).publish(first_tariff());
    // Room for one edition and a half: what is not asked for any more makes room for what is.
    (void)cache::create(
        answers_of(name),
        {.capacity = zones * shipment_kg_max * 3 / 2, .entry_bytes = 60, .evict = true, .registered_readers = workers});
    for (unsigned worker = 0; worker < workers; ++worker)
        (void)queue_producer::create(computed_of(name, worker), {.capacity_bytes = 64 * 1024});
}

void remove_shared(const std::string& name, unsigned workers) noexcept {
    std::vector<std::string> all{counts_of(name), tariff_of(name), answers_of(name)};
    for (unsigned worker = 0; worker < workers; ++worker) all.push_back(computed_of(name, worker));
    for (const std::string& each : all) try {
            segment::remove(each, patiently());
        } catch (const std::exception&) {
        }
}

void run_loader(const std::string& name) {
    tariffs published = tariffs::attach(tariff_of(name), patiently());
    tariffs::reader current = published.make_reader();
    const counts count(name);
    std::mt19937_64 random(static_cast<std::uint64_t>(::getpid()));
    for (;;) {
        tariff sheet = current.read().value;
        if (!is_whole(sheet)) count.torn.add(1);
        update(sheet, random);
        if (published.publish(sheet).status == outcome::ok) count.editions.add(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

void run_keeper(const std::string& name, unsigned workers) {
    cache answers = cache::attach(answers_of(name), patiently());
    const counts count(name);
    std::vector<queue_consumer> computed;
    for (unsigned worker = 0; worker < workers; ++worker)
        computed.push_back(queue_consumer::attach(computed_of(name, worker), {.segment = patiently()}));
    for (;;) {
        bool idle = true;
        for (queue_consumer& from : computed) {
            // In place: what the keeper is killed in comes again, and is then put once more.
            const auto put = [&](const queue_message& message) { keep(answers, count, message.bytes); };
            if (from.drain(64, put)) idle = false;
        }
        if (idle) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
}

void run_worker(const std::string& name, unsigned worker) {
    auto current = tariffs::reader::attach(tariff_of(name));
    // Registered: what is asked for often is not evicted.
    const auto answers = hash_map_registered_reader<question>::attach(answers_of(name));
    auto computed = queue_producer::attach(computed_of(name, worker), patiently());
    const counts count(name);
    std::mt19937_64 random(static_cast<std::uint64_t>(::getpid()));
    std::array<std::byte, 4096> room;
    std::uint64_t edition = 0;
    for (std::uint64_t i = 0;; ++i) {
        const auto sheet = current.read();
        if (!sheet) continue;  // overrun while it copied, and asks again
        if (!is_whole(sheet.value)) count.torn.add(1);
        if (sheet.value.edition < edition) count.backward.add(1);
        if (sheet.value.edition != edition) count.seen.add(1);
        edition = sheet.value.edition;
        const question asked = draw(random, edition);
        const hash_map_found found = answers.find(asked, std::span(room));
        count.requests.add(1);
        if (found) count.hits.add(1);
        if (found && i % 16 != 0) continue;
        const std::string text = answer(sheet.value, asked);
        if (found) {
            if (found.count != text.size() || std::memcmp(room.data(), text.data(), text.size()) != 0)
                count.wrong.add(1);
            continue;
        }
        count.computed.add(1);
        if (!computed.try_push(message_of(asked, text))) count.untold.add(1);
    }
}

}  // namespace config_cache
