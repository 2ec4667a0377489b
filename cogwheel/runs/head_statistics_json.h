// Statistics of heads as JSON: {"sink": [[layer 0's heads], [layer 1's], …], "negative_mass": …}, five digits each. A
// statistic that no head has is left out.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "cogwheel/nn/hooks/head_statistics.h"

namespace cogwheel::runs {

nlohmann::ordered_json heads_to_json(const nn::StatisticsOfHeads& heads);

// Throws nlohmann's exceptions for other JSON; missing statistics stay 0.
nn::StatisticsOfHeads heads_from_json(const nlohmann::ordered_json& json);

}  // namespace cogwheel::runs
