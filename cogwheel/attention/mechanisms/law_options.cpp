#include "cogwheel/attention/mechanisms/law_options.h"

#include <algorithm>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

std::vector<LawOption> law_options() {
  std::vector<LawOption> options;
  for (const Mechanism& mechanism : all_mechanisms()) {
    if (mechanism.recurrent() == nullptr) continue;
    for (const LawOption& option : mechanism.recurrent()->options)
      if (std::none_of(options.begin(), options.end(), [&](const auto& each) { return each.name == option.name; }))
        options.push_back(option);
  }
  return options;
}

}  // namespace cogwheel
