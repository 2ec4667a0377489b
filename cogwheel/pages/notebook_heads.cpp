#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/pages/attention_map_code.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/notebook_output.h"

namespace cogwheel::pages {
namespace {

using Json = nlohmann::ordered_json;

constexpr float hidden = -std::numeric_limits<float>::infinity();

float weight_or_zero(float weight) { return std::isfinite(weight) ? weight : 0; }

// Some query weighs a later key.
bool sees_later(const NotebookHeads& heads) {
  const std::size_t tokens = heads.tokens.size();
  for (const auto& layer : heads.layers)
    for (const std::vector<float>& map : layer)
      for (std::size_t query = 0; query < tokens; ++query)
        for (std::size_t key = query + 1; key < tokens; ++key)
          if (weight_or_zero(map[query * tokens + key]) != 0) return true;
  return false;
}

// What a script reads: the lower triangle or the whole square.
WideMap coded(const std::vector<float>& map, std::size_t tokens, bool whole) {
  std::vector<float> numbers;
  for (std::size_t query = 0; query < tokens; ++query)
    for (std::size_t key = 0; key < (whole ? tokens : query + 1); ++key) {
      const float weight = map[query * tokens + key];
      numbers.push_back(std::isfinite(weight) ? weight : hidden);
    }
  return wide_map(numbers);
}

struct HeadFacts {
  double first = 0, negative = 0;  // means over the queries of |a| of key 0 and of Σ|a| over a < 0
  std::size_t query = 0, key = 0;  // of the largest |a| of the queries that see more than one key
  float strongest = 0;
};

HeadFacts facts_of(const std::vector<float>& map, std::size_t tokens, bool whole) {
  HeadFacts facts;
  const std::size_t first_with_choice = whole || tokens == 1 ? 0 : 1;
  for (std::size_t query = 0; query < tokens; ++query)
    for (std::size_t key = 0; key < tokens; ++key) {
      const float weight = weight_or_zero(map[query * tokens + key]);
      if (key == 0) facts.first += std::abs(weight) / static_cast<double>(tokens);
      facts.negative += std::max(0.F, -weight) / static_cast<double>(tokens);
      if (query >= first_with_choice && std::abs(weight) > std::abs(facts.strongest))
        facts.query = query, facts.key = key, facts.strongest = weight;
    }
  return facts;
}

// A token on a screen, where it takes one line.
std::string visible(const std::string& token) {
  if (token == " ") return "␣";
  if (token == "\n") return "↵";
  if (token == "\t") return "⇥";
  if (token == "\r") return "␍";
  return one_line(token);
}

}  // namespace

NotebookOutput notebook_heads(const NotebookHeads& heads) {
  const std::size_t tokens = heads.tokens.size();
  std::size_t count = 0;
  for (const auto& layer : heads.layers)
    for (const std::vector<float>& map : layer) {
      if (map.size() != tokens * tokens) throw std::logic_error("notebook_heads: weights");
      ++count;
    }
  const bool whole = sees_later(heads);
  const std::string of = counted(static_cast<std::int64_t>(count), "head"),
                    over = counted(static_cast<std::int64_t>(tokens), "token");
  // Weights are shares of 1 for most mechanisms, so that maps of several outputs can be compared.
  float range = 1;
  Json layers = Json::array(), facts = Json::array();
  TextTable table{.title = fmt::format("Attention of {} over {}", of, over),
                  .columns = {"head", "first token", "negative per row", "largest weight", "of", "to"},
                  .rows = {}};
  for (std::size_t layer = 0; layer < heads.layers.size(); ++layer) {
    Json codes = Json::array(), said = Json::array();
    for (std::size_t head = 0; head < heads.layers[layer].size(); ++head) {
      const std::vector<float>& map = heads.layers[layer][head];
      const WideMap code = coded(map, tokens, whole);
      range = std::max(range, code.range);
      codes.push_back({{"code", encode(code, 16)}, {"range", code.range}});
      const HeadFacts found = facts_of(map, tokens, whole);
      said.push_back(fmt::format("first token {:.2f} · negative {:.2f} per row", found.first, found.negative));
      const auto named = [&](std::size_t at) { return fmt::format("{} ({})", visible(heads.tokens[at]), at + 1); };
      table.rows.push_back({head_name(static_cast<std::int64_t>(layer), static_cast<std::int64_t>(head)),
                            fixed(found.first, 2), fixed(found.negative, 2), signed_fixed(found.strongest, 3),
                            named(found.query), named(found.key)});
    }
    layers.push_back(std::move(codes)), facts.push_back(std::move(said));
  }
  const Json data{{"tokens", heads.tokens}, {"whole", whole}, {"range", range}, {"layers", layers}, {"facts", facts}};
  const std::string text = escape_script_json(data.dump(-1, ' ', false, Json::error_handler_t::replace));
  const std::string name = sha256(text).substr(0, 16);
  const std::string part =
      fill_template(embedded::notebook_heads_html,
                    {{"heads", of}, {"tokens", over}, {"hidden", whole ? "" : " Grey: later tokens, not visible."}});
  // The inner block has its own $ and css, so that the scripts of pages, which ask for these, draw in this output.
  const std::string script = fmt::format(
      "(() => {{\n\"use strict\";\n{}\nfor (const root of document.querySelectorAll('[data-heads=\"{}\"]')) {{\n"
      "const $ = name => root.querySelector(`[data-part=\"${{name}}\"]`), css = name => "
      "getComputedStyle(root.closest(\".cogwheel\")).getPropertyValue(name).trim();\n"
      "root.removeAttribute(\"data-heads\");\n{}\n{}\nshowHeads({});\n}}\n}})();",
      embedded::page_js, name, embedded::attention_maps_js, embedded::notebook_heads_js, text);
  return {.html = notebook_html(fmt::format("<div data-heads=\"{}\">\n{}</div>\n", name, part), script) +
                  fmt::format("<script>{}</script>\n", script),
          .text = table_text(table)};
}

}  // namespace cogwheel::pages
