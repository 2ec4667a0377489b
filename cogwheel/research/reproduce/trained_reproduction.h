// What came of an experiment whose variants are trained: its claims decided, its tables beside those of the source.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/research/reproduce/claims.h"
#include "cogwheel/research/reproduce/reproduction_request.h"
#include "cogwheel/research/reproduce/trained_experiment.h"

namespace cogwheel::reproduce {

// Gives its studies the parameters of the request's scale, and then those of the request. Throws UsageError.
void set_studies(TrainedExperiment& experiment, const ReproductionRequest& request);

// The comparison that the experiment is, at the scale of the request. Throws UsageError.
compare::CompareRequest comparison_request(const TrainedExperiment& experiment, const ReproductionRequest& request);

struct TrainedReproduction {
  TrainedExperiment experiment;
  ReproductionRequest request;
  compare::Comparison comparison;
  std::vector<StudyOfRows> studies = {};
  std::vector<DecidedClaim> claims;
  std::int64_t taken = 0;  // runs that the store had
  std::string command;     // that makes it again
  std::string created;     // ISO 8601
  std::string version;     // of Cogwheel
  double seconds = 0;

  Measurements measured() const { return {comparison, studies}; }
  // Throws Error where a study could not be made.
  void expect_studies() const;
};

// The claims beside each other, for a page and for a screen.
pages::TextTable claims_table(const std::vector<DecidedClaim>& claims);

std::string trained_page(const TrainedReproduction& reproduction);
std::string trained_json(const TrainedReproduction& reproduction);

// In the folder of a reproduction, beside its page and its numbers.
inline constexpr const char* comparison_folder = "comparison";

}  // namespace cogwheel::reproduce
