// Heat maps of alignments: which source words a translation looked at. HTML without script, so that it shows anywhere.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/train/shown_figure.h"

namespace cogwheel {

// A panel of annotated links: sure ones at 1, possible ones at 0.25.
AlignmentPanel gold_panel(std::string title, const std::vector<WordLink>& gold, std::size_t targets,
                          std::size_t sources);

// A <figure> for a page with report.css. Every text in it is escaped here. Throws std::logic_error where a panel's
// weights are not those of the words.
std::string alignment_figure(const AlignmentFigure& figure);

}  // namespace cogwheel
