// Styles of a page for a part of one that stands among others' HTML, as the output of a notebook does.
#pragma once
#include <string>
#include <string_view>

namespace cogwheel::pages {

// The rules of `css`, a style sheet of ours, that can match an element of `html` (text of scripts included, which make
// elements too), confined to what has the class "cogwheel":
// - :root and body are the part itself, and rules of html are left out;
// - lengths are of the part and not of its surroundings: rem is 15 pixels, vw is of the part's width, and so are the
//   widths that @media asks for (@container);
// - a dark scheme is the one that the notebook says it has (Jupyter, VS Code, Colab), else that of the system;
// - what concerns paper alone is left out.
// Selectors by id are left out too: a document may hold the part twice.
std::string scoped_style(std::string_view css, std::string_view html);

}  // namespace cogwheel::pages
