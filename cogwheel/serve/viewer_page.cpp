#include "cogwheel/serve/viewer_page.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/page_scripts.h"
#include "cogwheel/serve/templates.h"
#include "cogwheel/serve/viewer.h"

namespace cogwheel::serve {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return pages::escape_script_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string filled(const Viewer& viewer, const ViewerPage& page, Json data, const std::string& maps,
                   const std::string& offline) {
  const bool live = data["live"];
  data["runs"] = viewer.runs_json();
  data["initial"] = {{"text", page.text}, {"second", page.second_text}};
  std::string title;
  for (const ViewedRun& run : viewer.runs()) title += (title.empty() ? "" : " and ") + run.name();
  pages::PageScripts scripts;
  scripts.add(pages::fill_template(embedded::view_page_js,
                                   {{"page_js", std::string(pages::embedded::page_js)},
                                    {"attention_maps_js", std::string(pages::embedded::attention_maps_js)},
                                    {"source_js", std::string(embedded::source_js)},
                                    {"lines_js", std::string(embedded::lines_js)},
                                    {"pictures_js", std::string(embedded::pictures_js)},
                                    {"view_js", std::string(embedded::view_js)}}));
  return pages::fill_template(embedded::view_html, {{"generator", pages::escape_html("Cogwheel " + page.version)},
                                                    {"title", pages::escape_html(title)},
                                                    {"policy", scripts.policy(live ? "'self'" : "'none'")},
                                                    {"offline", pages::escape_html(offline)},
                                                    {"command", pages::escape_html(page.command)},
                                                    {"colophon", live ? " but the server of this machine" : ""},
                                                    {"report_css", std::string(pages::embedded::report_css)},
                                                    {"view_css", std::string(embedded::view_css)},
                                                    {"data", dumped(data)},
                                                    {"maps", maps},
                                                    {"scripts", scripts.html()}});
}

// What a file shows: every run, each compared with nothing and with what there is.
std::vector<ViewRequest> requests_of(const Viewer& viewer, const ViewerPage& page, bool weights_only) {
  const std::vector<ViewedRun>& runs = viewer.runs();
  const Json facts = viewer.runs_json();
  std::vector<ViewRequest> requests;
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (const ShownValues values : {ShownValues::weights, ShownValues::weighted, ShownValues::scores}) {
      if (weights_only && values != ShownValues::weights) continue;
      if (values == ShownValues::scores && !facts[run]["scores"]) continue;
      std::vector<Compared> compared{Compared::none};
      const bool same_grid = runs.size() == 2 && facts[0]["heads"] == facts[1]["heads"];
      const bool same_scores = same_grid && facts[0]["score_heads"] == facts[1]["score_heads"];
      if (values == ShownValues::scores ? same_scores : same_grid) compared.push_back(Compared::run);
      if (!page.second_text.empty()) compared.push_back(Compared::text);
      for (const Compared each : compared)
        requests.push_back({.run = run,
                            .text = page.text,
                            .second_text = page.second_text,
                            .values = values,
                            .compared = each,
                            .edits = {},
                            .answer = {},
                            .foil = {},
                            .head = {}});
    }
  return requests;
}

std::string id_of(const ViewRequest& request) {
  return fmt::format("{}-{}-{}", request.run, compared_names()[static_cast<std::size_t>(request.compared)],
                     shown_values_names()[static_cast<std::size_t>(request.values)]);
}

}  // namespace

std::string served_page(const Viewer& viewer, const ViewerPage& page) {
  return filled(viewer, page, {{"live", true}}, "", "");
}

std::string exported_page(Viewer& viewer, const ViewerPage& page) {
  const auto tokens = viewer.runs().front().read(page.text, "--text").tokens.size();
  std::size_t heads = 0;
  const Json facts = viewer.runs_json();
  for (const Json& run : facts) {
    std::size_t of_run = 0;
    for (const Json& layer : run["heads"]) of_run += layer.get<std::size_t>();
    heads = std::max(heads, of_run);
  }
  const auto size_of = [&](std::size_t views, std::size_t bytes) {
    return views * heads * tokens * (tokens + 1) / 2 * bytes * 4 / 3;
  };
  const std::vector<ViewRequest> all = requests_of(viewer, page, false), few = requests_of(viewer, page, true);
  int bits = 16;
  if (size_of(all.size(), 2) > largest_export) bits = 8;
  const bool whole = size_of(all.size(), 1) <= largest_export;
  const std::vector<ViewRequest>& requests = whole ? all : few;
  if (size_of(requests.size(), 1) > largest_export)
    throw UsageError(
        expected_got("--export", fmt::format("a page of at most {}", pages::byte_size(largest_export)),
                     fmt::format("{} of weights for {} tokens",
                                 pages::byte_size(static_cast<std::int64_t>(size_of(requests.size(), 1))), tokens)));
  Json data{{"live", false}, {"bits", bits}, {"views", Json::object()}};
  std::string maps;
  for (const ViewRequest& request : requests) {
    const std::string id = id_of(request);
    data["views"][id] = viewer.view(request);
    maps += fmt::format("<script type=\"application/json\" id=\"maps-{}\">{}</script>\n", id,
                        dumped(viewer.all_maps(request, bits)));
  }
  std::string offline =
      "Written to a file: what needs the model is left out. To type other texts or to change heads, start the command "
      "below.";
  if (!whole) offline += " The text is long, so that the file has weights alone.";
  if (bits == 8) offline += " Numbers have two digits.";
  return filled(viewer, page, std::move(data), maps, offline);
}

}  // namespace cogwheel::serve
