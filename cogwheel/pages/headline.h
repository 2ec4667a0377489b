// The sentence that answers a study: numbers of models beside each other, few enough to be read at once.
#pragma once
#include <string>
#include <vector>

namespace cogwheel::pages {

struct Told {
  std::string name;  // of a model, or a kind
  double value = 0;  // not finite: it has none, and is left out
  std::string text;  // the value as it is written
};

// "0.38 (softmax)", "0.38 (softmax) and 0.2 (cog)"; of more than three the lowest and the highest, "0.2 (cog) to 0.9
// (gla)". Nothing where nobody has a value.
std::string told(std::vector<Told> each);

// "38 %", "0.4 %": of a share, without more digits than a sentence bears.
std::string told_percent(double share);

}  // namespace cogwheel::pages
