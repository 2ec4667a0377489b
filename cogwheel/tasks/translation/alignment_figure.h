// Heat maps of alignments: which source words a translation looked at. HTML without script, so that it shows anywhere.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/runs/shown_figure.h"
#include "cogwheel/tasks/translation/alignment_links.h"

namespace cogwheel::tasks::translation {

struct AlignmentPanel {
  std::string title;                 // empty where the figure's says it
  std::vector<float> weights;        // [target words, source words], row by row; may be negative
  std::vector<WordLink> gold = {};   // outlined in the map
  std::optional<double> error_rate;  // of the alignment, of all that it was measured on
};

// The maps of one sentence, one or several side by side: global, local-m, local-p and gold.
struct AlignmentFigure {
  std::string caption;
  std::vector<std::string> source, target;  // words or pieces
  std::vector<AlignmentPanel> panels;
};

// A panel of annotated links: sure ones at 1, possible ones at 0.25.
AlignmentPanel gold_panel(std::string title, const std::vector<WordLink>& gold, std::size_t targets,
                          std::size_t sources);

// A <figure> for a page with report.css. Every text in it is escaped here. Throws std::logic_error where a panel's
// weights are not those of the words.
std::string alignment_html(const AlignmentFigure& figure);

pages::Figure drawn_figure(const AlignmentFigure& figure, const std::string& title);
nlohmann::ordered_json figure_json(const AlignmentFigure& figure);

}  // namespace cogwheel::tasks::translation
