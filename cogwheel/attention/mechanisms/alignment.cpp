#include "cogwheel/attention/mechanisms/alignment.h"

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel {
namespace {

using Score = AlignmentScore;
using Window = AlignmentWindow;

constexpr AlignmentKind known_kinds[] = {
    {"none", "None", Score::none},
    {"bahdanau", "Bahdanau", Score::additive, Window::whole, true},
    {"luong_dot", "Luong dot", Score::dot},
    {"luong_general", "Luong general", Score::general},
    {"luong_concat", "Luong concat", Score::additive},
    {"luong_dot_local_m", "Luong dot, local-m", Score::dot, Window::around_step},
    {"luong_general_local_m", "Luong general, local-m", Score::general, Window::around_step},
    {"luong_concat_local_m", "Luong concat, local-m", Score::additive, Window::around_step},
    {"luong_dot_local_p", "Luong dot, local-p", Score::dot, Window::around_prediction},
    {"luong_general_local_p", "Luong general, local-p", Score::general, Window::around_prediction},
    {"luong_concat_local_p", "Luong concat, local-p", Score::additive, Window::around_prediction},
};
constexpr std::string_view plain_map = "softmax";  // which a kind alone has

// What weighs the keys of one head by their scores.
bool weighs_scores(const Mechanism& mechanism) {
  return mechanism.pairwise() != nullptr && mechanism.sub_heads() == 1 && !mechanism.is_layer;
}

bool may_align(const AlignmentKind& kind, const Mechanism& mechanism) {
  return kind.score != Score::none && weighs_scores(mechanism) &&
         !(mechanism.takes_cosines() && kind.score == Score::additive);
}

std::string alignment_name(const AlignmentKind& kind, const Mechanism& map) {
  std::string name(kind.name);
  if (map.description.name != plain_map) name.append("_").append(map.description.name);
  return name;
}

// The kind with the longest name that begins `name`, up to its end or a _; null where none does.
const AlignmentKind* kind_of(std::string_view name) {
  const AlignmentKind* found = nullptr;
  for (const AlignmentKind& kind : known_kinds)
    if (name.starts_with(kind.name) && (name.size() == kind.name.size() || name[kind.name.size()] == '_'))
      if (found == nullptr || kind.name.size() > found->name.size()) found = &kind;
  return found;
}

}  // namespace

std::span<const AlignmentKind> alignment_kinds() { return known_kinds; }

std::string Alignment::name() const { return map != nullptr ? alignment_name(*kind, *map) : std::string(kind->name); }

std::string Alignment::title() const {
  std::string title(kind->title);
  if (map != nullptr && map->description.name != plain_map) title.append(", ").append(map->description.title);
  return title;
}

Alignment find_alignment(std::string_view name, std::string_view what) {
  if (const AlignmentKind* kind = kind_of(name)) {
    const bool alone = name.size() == kind->name.size();
    if (alone && kind->score == Score::none) return {kind, nullptr};
    const std::string_view map_name = alone ? plain_map : name.substr(kind->name.size() + 1);
    const Mechanism* const map = mechanism_or_null(map_name);
    if (map != nullptr && may_align(*kind, *map)) return {kind, map};
    if (map != nullptr && weighs_scores(*map) && map->takes_cosines() && kind->score == Score::additive)
      throw UsageError(expected_got(what, "a row map of any score (" + std::string(map_name) + " reads cosines)",
                                    std::string(name)));
    if (map != nullptr && !weighs_scores(*map))
      throw UsageError(
          expected_got(what, "a row map (" + std::string(map_name) + " is none) after " + std::string(kind->name),
                       std::string(name)));
  }
  const std::vector<std::string> all = alignment_names();
  // Where no name is near, the kinds are the list that is short enough to read.
  std::vector<std::string> short_list;
  for (const AlignmentKind& kind : known_kinds) short_list.emplace_back(kind.name);
  throw UsageError(
      expected_got(what, expected_names(name, nearest_names(name, all).empty() ? short_list : all), std::string(name)));
}

std::vector<std::string> alignment_names() {
  std::vector<std::string> names;
  for (const AlignmentKind& kind : known_kinds) names.emplace_back(kind.name);
  for (const AlignmentKind& kind : known_kinds)
    for (const Mechanism& mechanism : all_mechanisms())
      if (may_align(kind, mechanism) && mechanism.description.name != plain_map)
        names.push_back(alignment_name(kind, mechanism));
  return names;
}

}  // namespace cogwheel
