#include "cogwheel/text/held_out_tenth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/class_matching.h"
#include "support/error_of.h"

namespace cogwheel::text {
namespace {

using Names = std::vector<std::string>;

Names numbered(int count, const std::string& before = "thing ") {
  Names names;
  for (int number = 0; number < count; ++number) names.push_back(before + std::to_string(number));
  return names;
}

std::int64_t count_of(const std::vector<bool>& held_out) { return std::count(held_out.begin(), held_out.end(), true); }

std::set<std::string> held_out_of(const Names& keys, const std::vector<bool>& held_out) {
  std::set<std::string> found;
  for (std::size_t index = 0; index < keys.size(); ++index)
    if (held_out[index]) found.insert(keys[index]);
  return found;
}

TEST(HeldOutTenth, IsATenthByContentAlone) {
  const Names keys = numbered(1000);
  const std::vector<bool> held_out = held_out_tenth({.keys = keys});
  EXPECT_EQ(count_of(held_out), 100);
  const std::set<std::string> found = held_out_of(keys, held_out);
  Names reversed(keys.rbegin(), keys.rend());
  EXPECT_EQ(held_out_of(reversed, held_out_tenth({.keys = reversed})), found);
  // Ten more move few others.
  Names more = numbered(1010);
  std::int64_t moved = 0;
  for (const std::string& each : held_out_of(more, held_out_tenth({.keys = more})))
    moved += found.contains(each) ? 0 : 1;
  EXPECT_LE(moved, 3);
  EXPECT_EQ(count_of(held_out_tenth({.keys = keys, .most = 30})), 30);
  EXPECT_EQ(count_of(held_out_tenth({.keys = numbered(2)})), 1);
  EXPECT_EQ(count_of(held_out_tenth({.keys = numbered(1)})), 0);
  EXPECT_EQ(count_of(held_out_tenth({.keys = {}})), 0);
}

// Labels that alternate, or are sorted: a tenth of each either way.
TEST(HeldOutTenth, HasItsShareOfEachClass) {
  const Names keys = numbered(2000);
  for (const bool sorted : {false, true}) {
    std::vector<std::int64_t> classes;
    for (std::int64_t index = 0; index < 2000; ++index) classes.push_back(sorted ? index / 400 : index % 5);
    const std::vector<bool> held_out = held_out_tenth({.keys = keys, .classes = classes});
    std::map<std::int64_t, int> counts;
    for (std::size_t index = 0; index < 2000; ++index) counts[classes[index]] += held_out[index] ? 1 : 0;
    for (std::int64_t label = 0; label < 5; ++label) EXPECT_NEAR(counts[label], 40, 1) << label;
    EXPECT_EQ(count_of(held_out), 200);
  }
  // Classes of few, down to one, which is trained on.
  std::vector<std::int64_t> classes;
  for (std::int64_t index = 0; index < 2000; ++index) classes.push_back(index < 1 ? 7 : 8 + index / 3);
  const std::vector<bool> held_out = held_out_tenth({.keys = keys, .classes = classes});
  EXPECT_FALSE(held_out[0]);
  EXPECT_NEAR(static_cast<double>(count_of(held_out)), 200, 1);
  std::map<std::int64_t, int> left;
  for (std::size_t index = 0; index < 2000; ++index) left[classes[index]] += held_out[index] ? 0 : 1;
  for (const auto& [label, count] : left) EXPECT_GE(count, 1) << label;
}

TEST(HeldOutTenth, KeepsTogetherWhatIsEqualOrTied) {
  Names keys, ties;
  std::vector<std::int64_t> classes;
  for (int copy = 0; copy < 10; ++copy)
    for (int picture = 0; picture < 40; ++picture) {
      keys.push_back("picture " + std::to_string(picture));
      ties.push_back("line " + std::to_string(picture / 4));
      classes.push_back(picture * 7919 % 10);
    }
  const std::vector<bool> held_out = held_out_tenth({.keys = keys, .classes = classes});
  for (std::size_t index = 0; index < keys.size(); ++index) EXPECT_EQ(held_out[index], held_out[index % 40]);
  EXPECT_NEAR(static_cast<double>(count_of(held_out)), 40, 10);
  // Of several classes, though each of their groups is larger than a tenth of its class.
  std::set<std::int64_t> seen;
  for (std::size_t index = 0; index < keys.size(); ++index)
    if (held_out[index]) seen.insert(classes[index]);
  EXPECT_GE(seen.size(), 3u);
  const std::vector<bool> tied = held_out_tenth({.keys = keys, .ties = ties});
  for (std::size_t index = 0; index < keys.size(); ++index) EXPECT_EQ(tied[index], tied[index % 40 / 4 * 4]);
  EXPECT_EQ(count_of(tied), 40);
  // A group of nearly all is not the one that is held out; groups that are all too large give their smallest.
  Names most(99, "the same");
  most.push_back("another");
  EXPECT_EQ(held_out_of(most, held_out_tenth({.keys = most})), (std::set<std::string>{"another"}));
  Names halves(60, "a");
  halves.resize(100, "b");
  EXPECT_EQ(held_out_of(halves, held_out_tenth({.keys = halves})), (std::set<std::string>{"b"}));
  // What has no key is never held out and does not count.
  Names blank(50, "");
  blank.resize(90, "x");
  blank.push_back("y");
  EXPECT_EQ(held_out_of(blank, held_out_tenth({.keys = blank})), (std::set<std::string>{"y"}));
}

TEST(TextContent, IsThatOfItsWords) {
  EXPECT_EQ(text_content("  A\tfilm,\xc2\xa0really  GOOD!\r\n"), text_content("a film , really good !"));
  EXPECT_EQ(text_content("caf\xc3\xa9"), text_content("cafe\xcc\x81"));
  EXPECT_NE(text_content("a film"), text_content("afilm"));
  EXPECT_EQ(text_content(" \xe2\x80\x8b "), "");
}

Names places(const Names& model, const Names& data) {
  Names found;
  const runs::ClassMatch match = runs::match_classes(model, data, "data");
  for (const std::int64_t place : match.places) found.push_back(std::to_string(place));
  if (!match.note.empty()) found.push_back(match.note.substr(0, 12));
  return found;
}

TEST(ClassMatching, IsByName) {
  EXPECT_EQ(places({"b", "c", "a"}, {"a", "b", "c"}), (Names{"2", "0", "1"}));
  EXPECT_EQ(places({"b", "c", "a"}, {"c"}), (Names{"1"}));
  EXPECT_EQ(places({"1", "0"}, {"0", "1"}), (Names{"1", "0"}));  // numbers are names too
  EXPECT_EQ(places({"POSITIVE", "NEGATIVE"}, {"negative", "positive"}), (Names{"1", "0", "classes are "}));
  EXPECT_EQ(places({"red_circle", "blue-square"}, {"blue square", "red circle"}), (Names{"1", "0", "classes are "}));
  // GLUE's labels beside names, and what transformers writes where nobody named them.
  EXPECT_EQ(places({"no", "yes"}, {"0", "1"}), (Names{"0", "1", "the numbers "}));
  EXPECT_EQ(places({"LABEL_0", "LABEL_1", "LABEL_2"}, {"1", "2"}), (Names{"1", "2", "the numbers "}));
  EXPECT_EQ(places({"LABEL_0", "LABEL_1"}, {"cat", "dog"}), (Names{"0", "1", "the model's "}));
  const auto refusal = [](const Names& model, const Names& data) {
    return error_of([&] { runs::match_classes(model, data, "data"); });
  };
  EXPECT_EQ(refusal({"a", "b"}, {"a", "c"}), "data: expected classes of the model: a, b, got c");
  EXPECT_EQ(refusal({"a", "a", "b"}, {"a", "b"}), "data: expected classes of the model: a, a, b, got a");
  EXPECT_EQ(refusal({"cat", "Cat"}, {"cAT"}), "data: expected classes of the model: cat, Cat, got cAT");
  EXPECT_EQ(refusal({"a", "b"}, {"1", "2"}), "data: expected classes of the model: a, b, got 1");
  EXPECT_EQ(refusal({"LABEL_0", "LABEL_1"}, {"a", "b", "c"}),
            "data: expected classes of the model: LABEL_0, LABEL_1, got a");
  EXPECT_EQ(refusal({"a", "b"}, {"A", "a"}), "data: expected classes of the model: a, b, got A");
}

}  // namespace
}  // namespace cogwheel::text
