// SPDX-License-Identifier: Apache-2.0
// sample_rounds.hpp - which samples of a round are taken again. No clock is in here: tests bring their own samples.
//
// A round is one sample of each subject. A sample counts (S1) if no core was taken away while it was taken, (S2) if the
// line took as long before it as behind it, and (S3) as long as for the other samples of its round: only then may the
// samples of a round be paired. One that does not count is taken again, by itself, before the round ends; the others of
// its round stay. So one interruption costs a sample and not a round of all subjects.
//
// Bounds: at most so many for each sample as the user says, and for all of a run as many for each subject and one for
// each sample that has counted so far: where everything is disturbed next to no time is lost. What does not count then
// is kept and told.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace holdfast::workload {

/// One go at a sample, and what was seen around it. An interruption makes a probe longer and never shorter, so of the
/// two probes at either end the shorter one is believed.
struct sample_attempt {
    double ns = 0;                            ///< an operation
    std::array<double, 2> before{}, after{};  ///< a bare round trip of one line, ns
    double two_lines_ns = 0;                  ///< likewise of a line each way
    bool lost_core = false;                   ///< either side was interrupted for somebody else
    bool stolen = false;                      ///< the account of stolen time grew
    [[nodiscard]] double line_before() const { return std::min(before[0], before[1]); }
    [[nodiscard]] double line_after() const { return std::min(after[0], after[1]); }
};

/// Samples by subject and round, and how they came about.
struct two_sided_result {
    std::vector<std::vector<double>> samples;  ///< [subject][round], ns an operation
    std::vector<double> line_ns;               ///< [round], a bare round trip of one line meanwhile
    std::vector<double> two_lines_ns;          ///< [round], likewise of a line each way
    std::size_t unsteady = 0;                  ///< samples taken again because the line's time had changed
    std::size_t disturbed = 0;                 ///< samples taken again because a core was lost
    std::size_t kept = 0;                      ///< samples of either kind that are among `samples`
};

class sample_rounds {
 public:
    static constexpr std::size_t usual_retakes = 4;  ///< of one sample
    /// Between two probes of one regime: the regimes are three times apart.
    static constexpr double steady = 1.4;

    /// Takes a sample of that subject.
    using take = std::function<sample_attempt(std::size_t subject)>;
    sample_rounds(std::size_t subjects, take attempt, std::size_t retakes_max = usual_retakes);

    /// One round, its subjects in that order. Throws: what the samples throw.
    void round(std::span<const std::size_t> order);
    [[nodiscard]] two_sided_result& found() noexcept { return found_; }

 private:
    enum class flaw : unsigned char { none, unsteady, disturbed };
    struct place {
        sample_attempt sample{};
        std::size_t goes = 0;
        bool disturbed = false;
    };
    [[nodiscard]] flaw flaw_of(const place& one) const;
    [[nodiscard]] bool may_retake(const place& one) const;
    void go(std::size_t subject);
    void hand_over();

    take attempt_;
    std::size_t retakes_max_;
    two_sided_result found_;
    std::vector<place> places_;        // of this round, by subject
    std::optional<double> line_;       // the line's time now, from the last sample that is good by itself
    std::optional<std::size_t> last_;  // whose sample was taken last
    std::size_t counted_ = 0;          // samples handed over without a flaw
};

}  // namespace holdfast::workload
