// What is asked for beside an experiment.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::reproduce {

// Recorded in the folder of a reproduction, so that it can be resumed.
struct ReproductionRequest {
  std::string experiment;
  std::string scale = "desk";
  std::int64_t seeds = 0;  // 0: those of the scale, or of the lab
  std::int64_t steps = 0;  // 0: those of the scale or the lab, or as many as fit `minutes`
  double minutes = 0;      // 0: as long as the steps take
  std::vector<std::string> text = {}, corpus = {};
  std::vector<std::string> set = {};
  std::vector<std::string> fitted = {};  // of a lab, what was set since so that it ends within the minutes
  bool operator==(const ReproductionRequest&) const = default;
};

std::string request_to_json(const ReproductionRequest& request);
// Throws Error that names `what`.
ReproductionRequest parse_request(std::string_view json, std::string_view what);

// Whether a request is the recorded one, but for what was fitted since.
bool is_recorded(const ReproductionRequest& request, ReproductionRequest recorded);

// In the folder of a reproduction, beside its page and its numbers.
inline constexpr const char* request_file = "request.json";

}  // namespace cogwheel::reproduce
