// The claims of an experiment beside the runs of its comparison.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/research/reproduce/studies_of_rows.h"
#include "cogwheel/research/reproduce/trained_experiment.h"

namespace cogwheel::reproduce {

// The value of one run; none where it is not finished or has no such number. Throws UsageError, with the nearest names,
// for a measure that its task does not have.
std::optional<double> number_of_run(const compare::Comparison& comparison, const compare::RunResult* run,
                                    const NumberOfRow& number);

// Throws UsageError, with the nearest names, where a claim or a table is about a number that no run will have.
void expect_numbers(const TrainedExperiment& experiment, const compare::Comparison& comparison,
                    const compare::RowTasks& tasks);

// What was found of rows: the measures of their comparison, and studies.
struct Measurements {
  const compare::Comparison& comparison;
  const std::vector<StudyOfRows>& studies;
};

// Of every seed in which the row, and the one that it is compared with, has the number, in their order.
std::vector<double> values_of(const Measurements& measured, const std::string& row, const std::string& against,
                              const NumberOfRow& number);

struct DecidedClaim {
  Claim claim;
  std::vector<double> values;  // of each seed
  ClaimResult result;          // of a claim that is not primary its means alone
};

// Primary claims are decided together, the others shown.
std::vector<DecidedClaim> decide(const std::vector<Claim>& claims, const Measurements& measured);

// "0.02 nats more", for a table: what was found, with its interval; what the claim expects; and why nobody can tell.
std::string found_text(const DecidedClaim& decided);
std::string expected_text(const Claim& claim);
std::string verdict_text(const DecidedClaim& decided);

// "Of 3 claims 1 agrees, 2 cannot be told."
std::string claims_sentence(const std::vector<DecidedClaim>& decided);

}  // namespace cogwheel::reproduce
