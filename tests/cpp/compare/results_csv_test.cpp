#include "cogwheel/compare/record/results_csv.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "example_comparison.h"

namespace cogwheel::compare {
namespace {

TEST(ResultsCsv, OneLinePerMechanismWithAsManyCellsAsTheHeader) {
  const std::string csv = results_to_csv(example_comparison());
  const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  std::vector<std::string> lines;
  for (std::size_t start = 0, end; (end = csv.find('\n', start)) != std::string::npos; start = end + 1)
    lines.push_back(csv.substr(start, end - start));
  ASSERT_EQ(lines.size(), 4U);
  for (const std::string& line : lines) EXPECT_EQ(commas(line), commas(lines[0])) << line;
  EXPECT_EQ(lines[2].substr(0, 10), "cog,1.945,");
  EXPECT_NE(lines[3].find("symmetric,2.1,,0.1,,,"), std::string::npos) << lines[3];  // one seed: no interval, no p
}

TEST(ResultsCsv, QuotesCells) {
  Comparison comparison = example_comparison();
  comparison.mechanisms[1].name = comparison.summary[1].mechanism = "a \"b\", c";
  EXPECT_NE(results_to_csv(comparison).find("\n\"a \"\"b\"\", c\","), std::string::npos);
}

TEST(ResultsCsv, HasTheWidthsOfItsRows) {
  Comparison comparison = example_comparison();
  EXPECT_EQ(results_to_csv(comparison).find(",width"), std::string::npos);
  comparison.settings.widths = {32};
  comparison.mechanisms[1].series = "cog";
  comparison.mechanisms[1].width = 32;
  comparison.mechanisms[1].block_parameters = 768;
  const std::string csv = results_to_csv(comparison);
  EXPECT_NE(csv.find(",series,width,parameters_without_embeddings\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",cog,32,768\n"), std::string::npos) << csv;
}

TEST(ResultsLatex, EscapesAndFormats) {
  Comparison comparison = example_comparison();
  comparison.mechanisms[0].title = "Soft_max & 100%";
  const std::string latex = results_to_latex(comparison);
  EXPECT_NE(latex.find("Soft\\_max \\& 100\\% & $2.0500 \\pm "), std::string::npos) << latex;
  EXPECT_NE(latex.find("Symmetric & $2.1000$ & $0.1000$ & -- \\\\"), std::string::npos) << latex;
}

TEST(RunMeans, CountOnlyRunsThatFinished) {
  const Comparison comparison = example_comparison();
  EXPECT_EQ(run_means(comparison, "symmetric").tokens, 2560);
  EXPECT_EQ(run_means(comparison, "symmetric").peak_memory_bytes, 200LL << 20);
}

}  // namespace
}  // namespace cogwheel::compare
