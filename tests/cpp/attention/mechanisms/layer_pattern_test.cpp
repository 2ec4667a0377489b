#include "cogwheel/attention/mechanisms/layer_pattern.h"

#include <gtest/gtest.h>

#include "support/usage_error_of.h"

namespace cogwheel {
namespace {

std::string layers_of(std::string_view pattern, std::int64_t layers) {
  const LayerPattern parsed(pattern);
  std::string names;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    names.append(names.empty() ? "" : " ").append(parsed.at(layer).description.name);
  return names;
}

TEST(LayerPattern, RepeatsDownTheLayers) {
  EXPECT_EQ(layers_of("cog", 3), "cog cog cog");
  EXPECT_EQ(layers_of("gla*3+softmax", 9), "gla gla gla softmax gla gla gla softmax gla");
  EXPECT_EQ(layers_of("retnet+differential_cog*2", 4), "retnet differential_cog differential_cog retnet");
  EXPECT_EQ(LayerPattern("gla*3+softmax").title(), "Gated linear attention × 3 + Softmax");
  EXPECT_EQ(LayerPattern("cog").title(), find_mechanism("cog").description.title);
  EXPECT_EQ(LayerPattern("cog").formula(), find_mechanism("cog").description.formula);
}

TEST(LayerPattern, RefusesWhatCannotBeReadInOneLine) {
  for (const std::string pattern : {"gla*", "gla*0", "gla*x", "gla*-1", "gla*2*3", "*3", "+", "gla+", "+gla",
                                    "gla++cog", "gla*99999999999999999999"})
    EXPECT_EQ(usage_error_of([&] { LayerPattern(pattern, "--attention"); }),
              "--attention: expected a name, or names and numbers of layers as in gla*3+softmax, got " + pattern);
  EXPECT_EQ(usage_error_of([] { LayerPattern("gla*3+sofmax", "--attention"); }),
            usage_error_of([] { find_mechanism("sofmax", "--attention"); }));
  EXPECT_EQ(usage_error_of([] { LayerPattern("", "--attention"); }),
            usage_error_of([] { find_mechanism("", "--attention"); }));
}

TEST(LayerPattern, NamesAFolderWithoutSpecialCharacters) {
  EXPECT_EQ(name_in_path("gla*3+softmax"), "gla.3-softmax");
  EXPECT_EQ(name_in_path("differential_cog"), "differential_cog");
  EXPECT_EQ(names_of_pattern("mine*3+softmax"), (std::vector<std::string>{"mine", "softmax"}));
}

}  // namespace
}  // namespace cogwheel
