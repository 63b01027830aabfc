// SPDX-License-Identifier: Apache-2.0
// A loop's mailbox by itself: who is woken for what, and what becomes of letters. Attacks I1 and I2 of mailbox.hpp.
#include "net/mailbox.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <thread>
#include <vector>

#include "net/wake_event.hpp"

namespace {

using namespace holdfast;

struct counting_letter final : net::letter {
    void open(net::server_core& /*loop*/) override {}
    void discard() noexcept override { ++discarded; }

    int discarded = 0;
};

struct box_of_a_loop {
    /// Whether the loop would wake; and lets it sleep again.
    bool was_woken() const {
        pollfd p{waker->fd(), POLLIN, 0};
        const bool woken = ::poll(&p, 1, 0) > 0;
        if (woken) waker->clear();
        return woken;
    }

    const std::shared_ptr<const net::wake_event> waker = std::make_shared<net::wake_event>();
    net::mailbox box{waker};
};

void put_from_elsewhere(net::mailbox& box, net::letter& letter) {
    std::jthread([&] { EXPECT_TRUE(box.put(letter)); });
}

TEST(Mailbox, WakesOnceForWhatIsPutIntoAnEmptyBox) {
    std::vector<counting_letter> letters(3);  // they outlive the box, which discards what is in it
    box_of_a_loop loop;
    EXPECT_TRUE(loop.box.put(letters[0]));
    EXPECT_TRUE(loop.was_woken());
    EXPECT_TRUE(loop.box.put(letters[1]));
    EXPECT_FALSE(loop.was_woken()) << "it has been woken and has not taken anything";
    net::letter* const taken = loop.box.take();
    EXPECT_EQ(taken, &letters[0]) << "the oldest first";
    EXPECT_EQ(taken->next, &letters[1]);
    EXPECT_TRUE(loop.box.is_empty());
    EXPECT_TRUE(loop.box.put(letters[2]));
    EXPECT_TRUE(loop.was_woken());
}

TEST(Mailbox, TheLoopDoesNotWakeItself) {
    std::vector<counting_letter> letters(4);
    box_of_a_loop loop, other;
    {
        const net::mailbox::attendance here(loop.box);
        EXPECT_TRUE(loop.box.put(letters[0]));
        EXPECT_FALSE(loop.was_woken());
        EXPECT_FALSE(loop.box.is_empty()) << "what it looks at before it sleeps";
        put_from_elsewhere(loop.box, letters[1]);
        EXPECT_FALSE(loop.was_woken()) << "it takes all before it sleeps";
        EXPECT_EQ(loop.box.take(), &letters[0]);
        put_from_elsewhere(loop.box, letters[0]);
        EXPECT_TRUE(loop.was_woken());
        EXPECT_TRUE(other.box.put(letters[2]));
        EXPECT_TRUE(other.was_woken()) << "that of another loop";
        {
            const net::mailbox::attendance within(other.box);
            EXPECT_EQ(loop.box.take(), &letters[0]);
            EXPECT_TRUE(loop.box.put(letters[0]));
            EXPECT_TRUE(loop.was_woken()) << "a loop that runs within a handler of this one";
        }
        EXPECT_EQ(loop.box.take(), &letters[0]);
        EXPECT_TRUE(loop.box.put(letters[0]));
        EXPECT_FALSE(loop.was_woken());
    }
    EXPECT_EQ(loop.box.take(), &letters[0]);
    EXPECT_TRUE(loop.box.put(letters[3]));
    EXPECT_TRUE(loop.was_woken()) << "the loop is over";
}

TEST(Mailbox, DiscardsWhatIsInItAtTheEndAndTakesNothingAfterwards) {
    std::vector<counting_letter> letters(3);  // they outlive the box, which discards what is in it
    box_of_a_loop loop;
    EXPECT_TRUE(loop.box.put(letters[0]));
    EXPECT_TRUE(loop.box.put(letters[1]));
    loop.box.close();
    EXPECT_EQ(letters[0].discarded, 1);
    EXPECT_EQ(letters[1].discarded, 1);
    EXPECT_FALSE(loop.box.put(letters[2]));
    EXPECT_EQ(loop.box.take(), nullptr);
    loop.box.close();
    EXPECT_EQ(letters[0].discarded, 1);
    EXPECT_EQ(letters[2].discarded, 0) << "the caller's still";
}

}  // namespace
