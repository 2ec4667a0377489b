#include "cogwheel/text/held_out_tenth.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/text/bert_words.h"

namespace cogwheel::text {
namespace {

// Things that stay together.
struct Group {
  std::string rank;  // groups are held out in its order
  std::int64_t label = 0;
  std::vector<std::size_t> members = {};

  std::int64_t size() const { return std::ssize(members); }
};

// Joins numbers into sets; each is known by its smallest number.
class JoinedSets {
 public:
  explicit JoinedSets(std::size_t count) : above_(count) { std::iota(above_.begin(), above_.end(), std::size_t{0}); }
  std::size_t of(std::size_t number) {
    while (above_[number] != number) number = above_[number] = above_[above_[number]];
    return number;
  }
  void join(std::size_t a, std::size_t b) {
    a = of(a), b = of(b);
    above_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> above_;
};

// In the order of their ranks.
std::vector<Group> groups_of(const ThingsToSplit& things) {
  const std::size_t count = things.keys.size();
  std::vector<std::string> hashes(count);
  JoinedSets sets(count);
  std::unordered_map<std::string_view, std::size_t> of_key, of_tie;
  for (std::size_t index = 0; index < count; ++index) {
    if (things.keys[index].empty()) continue;
    hashes[index] = sha256(things.keys[index]).substr(0, 15);  // fits without allocation
    sets.join(index, of_key.emplace(hashes[index], index).first->second);
    if (!things.ties.empty()) sets.join(index, of_tie.emplace(things.ties[index], index).first->second);
  }
  std::map<std::size_t, Group> by_first;
  for (std::size_t index = 0; index < count; ++index) {
    if (things.keys[index].empty()) continue;
    Group& group = by_first[sets.of(index)];
    const std::int64_t label = things.classes.empty() ? 0 : things.classes[index];
    const bool first = group.members.empty();
    group.rank = first ? hashes[index] : std::min(group.rank, hashes[index]);
    group.label = first ? label : std::min(group.label, label);
    group.members.push_back(index);
  }
  std::vector<Group> groups;
  for (auto& [first, group] : by_first) groups.push_back(std::move(group));
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.rank < b.rank; });
  return groups;
}

// Of each class, in the order of their first ranks; classes of one group are left out, unless all are.
std::vector<std::vector<const Group*>> classes_to_split(const std::vector<Group>& groups) {
  std::vector<std::vector<const Group*>> classes;
  std::map<std::int64_t, std::size_t> places;
  for (const Group& group : groups) {
    const auto [place, is_new] = places.emplace(group.label, classes.size());
    if (is_new) classes.emplace_back();
    classes[place->second].push_back(&group);
  }
  std::erase_if(classes, [](const auto& each) { return each.size() < 2; });
  if (classes.empty() && groups.size() > 1) {
    classes.emplace_back();
    for (const Group& group : groups) classes.back().push_back(&group);
  }
  return classes;
}

}  // namespace

std::vector<bool> held_out_tenth(const ThingsToSplit& things) {
  const std::vector<Group> groups = groups_of(things);
  const std::vector<std::vector<const Group*>> classes = classes_to_split(groups);
  std::vector<bool> held_out(things.keys.size());
  const auto hold_out = [&](const Group& group) {
    for (const std::size_t member : group.members) held_out[member] = true;
  };
  std::int64_t count = 0;
  for (const Group& group : groups) count += group.size();
  const std::int64_t wanted = std::min(things.most, (count + 9) / 10);
  std::int64_t all = 0, seen = 0, taken = 0;
  for (const auto& of_class : classes)
    for (const Group* group : of_class) all += group->size();
  // What a class lacks or has too much, since groups are whole, the next ones make up for.
  for (const auto& of_class : classes) {
    for (const Group* group : of_class) seen += group->size();
    std::size_t left = of_class.size();
    for (const Group* group : of_class) {
      const bool due = (2 * taken + group->size()) * all <= 2 * wanted * seen;
      if (!due || taken + group->size() > things.most || left == 1) continue;
      hold_out(*group);
      taken += group->size(), --left;
    }
  }
  if (taken > 0 || classes.empty()) return held_out;
  const Group* smallest = classes.front().front();
  for (const auto& of_class : classes)
    for (const Group* group : of_class)
      if (group->size() < smallest->size()) smallest = group;
  hold_out(*smallest);
  return held_out;
}

std::string text_content(std::string_view text) {
  std::string content;
  for (const std::string& word : bert_words(text, /*cased=*/false)) content += (content.empty() ? "" : " ") + word;
  return content;
}

std::string sha256_of_split(const std::string& data, const std::vector<bool>& held_out) {
  std::string sides = data + "\n";
  for (const bool each : held_out) sides += each ? '1' : '0';
  return sha256(sides);
}

}  // namespace cogwheel::text
