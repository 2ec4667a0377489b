// Which of many things are held out, decided by what they are and not by where they stand.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::text {

struct ThingsToSplit {
  // What each is, by its content or its name. Those of equal keys stay together, and the key's SHA-256 decides the
  // side. What has an empty key is never held out, and does not count.
  std::span<const std::string> keys;
  // What else keeps some together, such as the line that rows were cut from; none, or one for each.
  std::span<const std::string> ties = {};
  // Classes, of each of which a tenth is held out, as nearly as its groups allow; none, or one for each.
  std::span<const std::int64_t> classes = {};
  std::int64_t most = std::numeric_limits<std::int64_t>::max();  // held out
};

// For each whether it is held out: about a tenth, and at least one group of those that stay together. Of each class a
// group remains, so that a class of one is trained on; nothing is held out only where all are one group. A thing more
// or less moves few others.
std::vector<bool> held_out_tenth(const ThingsToSplit& things);

// The words of a text, whatever its white space, letter case, accents and spaces around punctuation: equal for texts
// that a reader would call the same, and so the content by which texts are held out.
std::string text_content(std::string_view text);

// A hash of data that `sha256` stands for, of which this is held out: a run that held out another part of the same
// files is told apart.
std::string sha256_of_split(const std::string& sha256, const std::vector<bool>& held_out);

}  // namespace cogwheel::text
