#include "cogwheel/serve/viewer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::serve {
namespace {

using Json = nlohmann::ordered_json;

// Of each layer, the heads of its output.
std::vector<std::int64_t> heads_of(const ViewedRun& run) {
  std::vector<std::int64_t> heads;
  const ViewedText one{{0}, {""}};
  const auto pass = view_pass(run, one, {}, {}, {});
  for (const auto& layer : pass->weights.layers()) heads.push_back(std::ssize(layer));
  return heads;
}

std::string grid_text(const std::vector<std::int64_t>& heads) {
  const bool same = std::all_of(heads.begin(), heads.end(), [&](std::int64_t each) { return each == heads.front(); });
  const std::string layers = pages::counted(std::ssize(heads), "layer");
  return same
             ? layers + " of " + pages::counted(heads.front(), "head")
             : fmt::format("{}, {} heads in all", layers, std::accumulate(heads.begin(), heads.end(), std::int64_t{0}));
}

// What a table of heads says of each: the weight on the first key, what is negative, and the largest number.
Json facts_of(const HeadMap& map, std::int64_t tokens) {
  double first = 0, negative = 0;
  std::int64_t query = 0, key = 0;
  int farthest = -1;
  std::size_t index = 0;
  for (std::int64_t row = 0; row < tokens; ++row) {
    const auto square = [](std::int16_t code) {
      return code == pages::hidden_code ? 0.0 : static_cast<double>(int{code} * code);
    };
    first += square(map.codes[index]);
    for (std::int64_t column = 0; column <= row; ++column, ++index) {
      const std::int16_t code = map.codes[index];
      if (code == pages::hidden_code) continue;
      if (code < 0) negative += square(code);
      if (std::abs(int{code}) > farthest) farthest = std::abs(int{code}), query = row, key = column;
    }
  }
  const double unit = map.range / (32767.0 * 32767.0) / static_cast<double>(tokens);
  return {{"first", first * unit}, {"negative", negative * unit}, {"largest_at", {query, key}}};
}

}  // namespace

Viewer::Viewer(std::vector<ViewedRun> runs) : runs_(std::move(runs)) {
  if (runs_.empty() || runs_.size() > 2)
    throw UsageError(expected_got("runs", "one or two", std::to_string(runs_.size())));
  if (runs_.size() == 2) expect_same_tokens(runs_[0], runs_[1]);
  for (const ViewedRun& run : runs_) heads_.push_back(heads_of(run));
}

Json Viewer::runs_json() const {
  Json list = Json::array();
  for (std::size_t index = 0; index < runs_.size(); ++index) {
    const ViewedRun& run = runs_[index];
    list.push_back({{"name", run.name()},
                    {"mechanism", run.mechanism()},
                    {"sha256", run.sha256()},
                    {"context", run.model()->options().context},
                    {"heads", heads_[index]},
                    {"scores", has_scores(run)},
                    {"score_heads", run.model()->options().heads}});
  }
  return list;
}

Json Viewer::changes_json() {
  Json lines = Json::array();
  for (ViewedRun& run : runs_)
    if (const std::string line = run.change_on_disk(); !line.empty()) lines.push_back(line);
  return lines;
}

std::vector<interpret::HeadEdit> Viewer::edits_of(const ViewRequest& request) {
  std::vector<interpret::HeadEdit> edits;
  for (const std::string& text : request.edits) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) throw UsageError(expected_got("edit", "a head and a kind, as in L0H1:zero", text));
    const interpret::HeadPlace place = interpret::parse_head_name(text.substr(0, colon), heads_[request.run], "head");
    edits.push_back({place.layer, place.head, interpret::head_edit_kind(text.substr(colon + 1), "edit")});
  }
  return edits;
}

Viewer::Sources Viewer::sources_of(const ViewRequest& request) {
  if (request.run >= runs_.size())
    throw UsageError(
        expected_got("run", fmt::format("one of {}", runs_.size()), fmt::format("number {}", request.run)));
  const std::vector<interpret::HeadEdit> edits = edits_of(request);
  const bool patched = std::any_of(edits.begin(), edits.end(), [](const interpret::HeadEdit& edit) {
    return edit.kind == interpret::HeadEditKind::patch;
  });
  Sources sources{.shown = {request.run, request.text, patched ? request.second_text : "", edits},
                  .plain = {request.run, request.text, "", {}},
                  .other = {}};
  const ViewedRun& run = runs_[request.run];
  if (patched || request.compared == Compared::text) {
    const auto tokens = run.read(request.text, "text").tokens.size(),
               others = run.read(request.second_text, "second text").tokens.size();
    if (tokens != others)
      throw UsageError(expected_got("second text",
                                    fmt::format("{} tokens, as the text has (tokens are matched by place)", tokens),
                                    std::to_string(others)));
  }
  switch (request.compared) {
    case Compared::none:
      break;
    case Compared::run:
      if (runs_.size() != 2) throw UsageError(expected_got("compared", "two runs", "one"));
      if (heads_[0] != heads_[1])
        throw UsageError(expected_got("difference", grid_text(heads_[request.run]) + ", as of " + run.name(),
                                      grid_text(heads_[1 - request.run]) + " of " + runs_[1 - request.run].name()));
      sources.other = {1 - request.run, request.text, "", {}};
      break;
    case Compared::text:
      sources.other = {request.run, request.second_text, "", {}};
      break;
    case Compared::edits:
      sources.other = sources.plain;
  }
  return sources;
}

Viewer::KeptPass& Viewer::pass_of(const PassKey& key) {
  const auto found =
      std::find_if(passes_.begin(), passes_.end(), [&](const KeptPass& kept) { return kept.key == key; });
  if (found != passes_.end()) {
    passes_.splice(passes_.begin(), passes_, found);
    return passes_.front();
  }
  const ViewedRun& run = runs_[key.run];
  const ViewedText text = run.read(key.text, "text");
  interpret::HeadOutputs own, other;
  if (!key.edits.empty()) own = pass_of({key.run, key.text, "", {}}).pass->outputs;
  if (!key.second_text.empty()) other = pass_of({key.run, key.second_text, "", {}}).pass->outputs;
  passes_.push_front({key, view_pass(run, text, key.edits, own, other), nullptr});
  forget_oldest();
  return passes_.front();
}

// All but the latest four, and of these what is too large.
void Viewer::forget_oldest() {
  const auto bytes_of = [](const KeptPass& kept) {
    return kept.pass->weights.bytes() + (kept.scores ? kept.scores->bytes() : 0);
  };
  std::size_t bytes = 0, count = 0;
  for (auto kept = passes_.begin(); kept != passes_.end();) {
    bytes += bytes_of(*kept);
    if (++count > 1 && (count > 4 || bytes > most_map_bytes))
      kept = passes_.erase(kept);
    else
      ++kept;
  }
}

std::shared_ptr<const HeadMaps> Viewer::maps_of(const PassKey& key, ShownValues values) {
  KeptPass& kept = pass_of(key);
  const auto weights = std::shared_ptr<const HeadMaps>(kept.pass, &kept.pass->weights);
  switch (values) {
    case ShownValues::weights:
      return weights;
    case ShownValues::weighted:
      return std::make_shared<HeadMaps>(times_value_lengths(*weights, kept.pass->value_lengths));
    case ShownValues::scores:
      break;
  }
  if (kept.scores == nullptr) {
    const ViewedRun& run = runs_[key.run];
    interpret::HeadOutputs own, other;
    if (!key.edits.empty()) own = pass_of({key.run, key.text, "", {}}).pass->outputs;
    if (!key.second_text.empty()) other = pass_of({key.run, key.second_text, "", {}}).pass->outputs;
    const auto scores = view_scores(run, run.read(key.text, "text"), key.edits, own, other);
    pass_of(key).scores = scores;
    return scores;
  }
  return kept.scores;
}

std::shared_ptr<const HeadMaps> Viewer::shown_maps(const ViewRequest& request, const Sources& sources) {
  const bool compared = request.compared != Compared::none;
  if (!compared && request.values != ShownValues::weighted) return maps_of(sources.shown, request.values);
  const auto found = std::find_if(made_.begin(), made_.end(), [&](const KeptMaps& kept) {
    return kept.left == sources.shown && kept.right == sources.other && kept.values == request.values &&
           kept.compared == request.compared;
  });
  if (found != made_.end()) return found->maps;
  std::shared_ptr<const HeadMaps> maps = maps_of(sources.shown, request.values);
  if (compared) {
    const auto others = maps_of(sources.other, request.values);
    for (std::size_t layer = 0; layer < maps->layers().size(); ++layer)
      if (maps->layers()[layer].size() != others->layers()[layer].size())
        throw UsageError(expected_got(
            "difference of scores",
            fmt::format("{} in layer {}, as of {}", maps->layers()[layer].size(), layer, runs_[request.run].name()),
            std::to_string(others->layers()[layer].size())));
    maps = std::make_shared<HeadMaps>(difference(*maps, *others));
  }
  made_.push_front({sources.shown, sources.other, request.values, request.compared, maps});
  if (made_.size() > 2) made_.pop_back();
  return maps;
}

Json Viewer::view(const ViewRequest& request) {
  const Sources sources = sources_of(request);
  const ViewedRun& run = runs_[request.run];
  const bool edited = !sources.shown.edits.empty();
  const auto maps = shown_maps(request, sources);

  Json json{{"tokens", run.read(request.text, "text").pieces}};
  if (request.compared == Compared::text) json["second_tokens"] = run.read(request.second_text, "second text").pieces;
  const double largest = maps->largest();
  // Weights have the scale of every picture of weights, up to 1, unless some are beyond.
  json["scale"] = request.values == ShownValues::weights ? std::max(1.0, largest) : largest > 0 ? largest : 1;
  json["side"] = std::min(maps->tokens(), small_side);
  json["halves"] = maps->layers().front().size() / static_cast<std::size_t>(heads_[request.run].front());
  Json layers = Json::array();
  for (const auto& layer : maps->layers()) {
    Json heads = Json::array();
    for (const HeadMap& map : layer) {
      Json head = facts_of(map, maps->tokens());
      head["range"] = map.range;
      head["code"] = small_map(map, maps->tokens(), small_side);
      heads.push_back(std::move(head));
    }
    layers.push_back(std::move(heads));
  }
  json["layers"] = std::move(layers);

  std::vector<SaidNext> columns{{edited ? "edited" : run.name(), pass_of(sources.shown).pass->next}};
  if (edited) columns.push_back({"unchanged", pass_of(sources.plain).pass->next});
  if (request.compared == Compared::run)
    columns.push_back({runs_[1 - request.run].name(), pass_of(sources.other).pass->next});
  if (request.compared == Compared::text) columns.push_back({"second text", pass_of(sources.other).pass->next});
  Json titles = Json::array();
  for (const SaidNext& column : columns) titles.push_back(column.title);
  json["columns"] = std::move(titles);
  json["next"] = next_tokens(run, columns);
  json["logits"] = logit_difference_of(run, columns, request.answer, request.foil, edited);
  json["seconds"] = pass_of(sources.shown).pass->seconds;
  return json;
}

Json Viewer::map(const ViewRequest& request, int bits) {
  const auto maps = shown_maps(request, sources_of(request));
  std::vector<std::int64_t> heads;
  for (const auto& layer : maps->layers()) heads.push_back(std::ssize(layer));
  const interpret::HeadPlace place = interpret::parse_head_name(request.head, heads, "head");
  const HeadMap& map = maps->layers()[static_cast<std::size_t>(place.layer)][static_cast<std::size_t>(place.head)];
  return {
      {"head", head_name(place.layer, place.head)}, {"bits", bits}, {"range", map.range}, {"code", encode(map, bits)}};
}

Json Viewer::all_maps(const ViewRequest& request, int bits) {
  const auto maps = shown_maps(request, sources_of(request));
  Json layers = Json::array();
  for (const auto& layer : maps->layers()) {
    Json heads = Json::array();
    for (const HeadMap& map : layer) heads.push_back(encode(map, bits));
    layers.push_back(std::move(heads));
  }
  return layers;
}

}  // namespace cogwheel::serve
