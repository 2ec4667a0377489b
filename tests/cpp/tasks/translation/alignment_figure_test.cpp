#include "cogwheel/tasks/translation/alignment_figure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include "support/count_of.h"

namespace cogwheel::tasks::translation {
namespace {

const AlignmentFigure example{.caption = "The <first> sentence",
                              .source = {"the", "\"dog\""},
                              .target = {"hundola", "<b>"},
                              .panels = {{.title = "global",
                                          .weights = {0.25F, 0.75F, -1.0F, std::numeric_limits<float>::quiet_NaN()},
                                          .gold = {{1, 0, true}, {0, 0, false}},
                                          .error_rate = 0.125},
                                         gold_panel("gold", {{1, 0, true}, {0, 0, false}}, 2, 2)}};

TEST(AlignmentFigure, ACellForEveryPairOfWords) {
  const std::string html = alignment_html(example);
  EXPECT_EQ(count_of(html, "title=\""), 8u);
  // √0.25 = 0.5 of the way from the middle of the scale to its end: code 64 of 127.
  EXPECT_EQ(count_of(html, "<td class=\"gold possible\" style=\"--at:75.2%\" title=\"hundola ← the: 0.25\">0.25</td>"),
            1u)
      << html;
  EXPECT_EQ(
      count_of(html, "<td class=\"gold\" style=\"--at:93.3%\" title=\"hundola ← &quot;dog&quot;: 0.75\">0.75</td>"),
      1u);
  EXPECT_EQ(count_of(html, "<td style=\"--at:0.0%\" title=\"&lt;b&gt; ← the: −1.00\">−1.00</td>"), 1u);
  EXPECT_EQ(count_of(html, "<td class=\"none\" title=\"&lt;b&gt; ← &quot;dog&quot;: not a number\">"), 1u);
  EXPECT_EQ(count_of(html, "--at:100.0%"), 1u);  // the sure link of gold
  EXPECT_EQ(count_of(html, "<small>error rate 0.125</small>"), 1u);
  EXPECT_EQ(count_of(html, "dotted, possibly"), 1u);
  EXPECT_EQ(count_of(html, "<b>"), 0u);
  EXPECT_EQ(count_of(html, "The &lt;first&gt; sentence"), 1u);
  EXPECT_EQ(count_of(html, "{{"), 0u);
  EXPECT_EQ(count_of(html, "<script"), 0u);
}

TEST(AlignmentFigure, WeightsOfOtherWordsAreRefused) {
  AlignmentFigure figure = example;
  figure.panels[0].weights.pop_back();
  EXPECT_THROW(alignment_html(figure), std::logic_error);
}

}  // namespace
}  // namespace cogwheel::tasks::translation
