// What a table makes of the numbers: each number of theirs is the number of its own place, so that wherever it ends in
// ours is told by what is there.
#include "cogwheel/interchange/tensor_table.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "cogwheel/interchange/foreign_weights.h"
#include "cogwheel/runs/safetensors.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace cogwheel::interchange::interchange_tables {
namespace {

NamedTensors read(const TensorTable& table, const NamedTensors& theirs) {
  const TemporaryFolder temporary;
  runs::save_safetensors({.tensors = theirs, .metadata = {}}, temporary.path() / "model.safetensors");
  std::vector<std::string> left_out;
  return table.to_ours(ForeignWeights(temporary.path()), left_out);
}

NamedTensors written(const TensorTable& table, const NamedTensors& ours) {
  NamedTensors theirs;
  for (const OutgoingTensor& each : table.to_theirs(ours, "run")) {
    theirs[each.name] = each.numbers();
    EXPECT_EQ(theirs[each.name].sizes(), at::IntArrayRef(each.shape)) << each.name;
  }
  return theirs;
}

void expect_same(const NamedTensors& got, const NamedTensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(got.at(name).equal(tensor)) << name;
}

// Reads them, writes them again bit for bit, and gives ours.
NamedTensors round_trip(const TensorTable& table, const NamedTensors& theirs) {
  const NamedTensors ours = read(table, theirs);
  expect_same(written(table, ours), theirs);
  return ours;
}

at::Tensor counted(at::IntArrayRef sizes, float first = 0) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return (first + at::arange(count, at::kFloat)).reshape(sizes);
}

TEST(TensorTable, JoinsPartsOfDifferentRows) {
  TensorTable table("Grouped");
  table.linear("qkv", {{.module = "q", .rows = 6}, {.module = "k", .rows = 2}, {.module = "v", .rows = 2}}, 3);
  const NamedTensors theirs{{"q.weight", counted({6, 3})},     {"q.bias", counted({6}, 50)},
                            {"k.weight", counted({2, 3}, 18)}, {"k.bias", counted({2}, 56)},
                            {"v.weight", counted({2, 3}, 24)}, {"v.bias", counted({2}, 58)}};
  expect_same(round_trip(table, theirs), {{"qkv.weight", counted({10, 3})}, {"qkv.bias", counted({10}, 50)}});
}

// Rotary components of one head of 6 that lie a half apart there, beside rows that stay.
TEST(TensorTable, PermutesRowsAndTheirBiases) {
  EXPECT_EQ(adjacent_from_halves(2, 4), (Order{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(paired_from_halves(4, 2), (Order{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(composed(adjacent_from_halves(2, 4), paired_from_halves(4, 2)), (Order{0, 4, 1, 5, 2, 6, 3, 7}));
  TensorTable table("Turned");
  table.linear("qv", {{.module = "q", .rows = 6, .order = adjacent_from_halves(1, 6)}, {.module = "v", .rows = 2}}, 2);
  const NamedTensors ours = round_trip(table, {{"q.weight", counted({6, 2})},
                                               {"q.bias", counted({6})},
                                               {"v.weight", counted({2, 2}, 12)},
                                               {"v.bias", counted({2}, 6)}});
  EXPECT_TRUE(ours.at("qv.bias").equal(at::tensor({0.F, 3.F, 1.F, 4.F, 2.F, 5.F, 6.F, 7.F})));
  EXPECT_TRUE(ours.at("qv.weight").select(1, 0).equal(2 * ours.at("qv.bias")));
}

TEST(TensorTable, PermutesColumns) {
  TensorTable table("Columns");
  table.linear("output", {{.module = "o", .rows = 2}}, 8, {.bias = Bias::none, .columns = paired_from_halves(4, 2)});
  const NamedTensors ours = round_trip(table, {{"o.weight", counted({2, 8})}});
  EXPECT_TRUE(ours.at("output.weight")[1].equal(at::tensor({8.F, 9.F, 12.F, 13.F, 10.F, 11.F, 14.F, 15.F})));
}

TEST(TensorTable, TransposesMatricesWithAnyOrder) {
  for (const bool rows_differ : {false, true})
    for (const bool columns_differ : {false, true}) {
      TensorTable table("Transposed");
      const Order rows = rows_differ ? Order{2, 0, 1} : Order{}, columns = columns_differ ? Order{3, 0, 1, 2} : Order{};
      table.linear("joint", {{.module = "c", .rows = 3, .order = rows}}, 4,
                   {.bias = Bias::both, .transposed = true, .columns = columns});
      const NamedTensors ours = round_trip(table, {{"c.weight", counted({4, 3})}, {"c.bias", counted({3})}});
      at::Tensor expected = counted({4, 3}).t();
      if (rows_differ) expected = expected.index_select(0, at::tensor(rows, at::kLong));
      if (columns_differ) expected = expected.index_select(1, at::tensor(columns, at::kLong));
      EXPECT_TRUE(ours.at("joint.weight").equal(expected)) << rows_differ << columns_differ;
    }
}

// Matrices that are read in several pieces, of every type.
TEST(TensorTable, ReadsLargeMatricesInPieces) {
  const std::int64_t rows = 700, columns = 300;
  Order order;
  for (std::int64_t row = 0; row < rows; ++row) order.push_back((row * 3) % rows);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    TensorTable table("Large");
    table.linear("plain", {{.module = "a", .rows = rows}}, columns, {.bias = Bias::none});
    table.linear("rows", {{.module = "b", .rows = rows, .order = order}}, columns, {.bias = Bias::none});
    table.linear("transposed", {{.module = "c", .rows = rows, .order = order}}, columns,
                 {.bias = Bias::none, .transposed = true});
    const at::Tensor numbers = torch::randn({rows, columns}).to(type);
    const NamedTensors ours = read(table, {{"a.weight", numbers}, {"b.weight", numbers}, {"c.weight", numbers.t()}});
    const at::Tensor wide = numbers.to(at::kFloat), ordered = wide.index_select(0, at::tensor(order, at::kLong));
    EXPECT_TRUE(ours.at("plain.weight").equal(wide));
    EXPECT_TRUE(ours.at("rows.weight").equal(ordered));
    EXPECT_TRUE(ours.at("transposed.weight").equal(ordered));
  }
}

TEST(TensorTable, FoldsAGainOnTheWayOut) {
  TensorTable table("Folded");
  table.linear("output", {{.module = "o", .rows = 3}}, 4, {.bias = Bias::none, .gain = "head_norm"});
  table.gain("head_norm", 2);
  const at::Tensor weight = counted({3, 4}), gain = at::tensor({2.F, -3.F});
  expect_same(written(table, {{"output.weight", weight}, {"head_norm", gain}}),
              {{"o.weight", weight * at::tensor({2.F, -3.F, 2.F, -3.F})}});
  expect_same(round_trip(table, {{"o.weight", weight}}), {{"output.weight", weight}, {"head_norm", at::ones({2})}});
}

TEST(TensorTable, FillsWhatOneSideLacks) {
  TensorTable table("Constants");
  table.linear("up", {{.module = "c_fc", .rows = 3}}, 2, {.bias = Bias::theirs, .transposed = true});
  table.norm("norm", "ln", 2, Bias::theirs);
  table.ours_alone("scale", {2}, 0.5);
  const NamedTensors theirs{{"c_fc.weight", counted({2, 3})},
                            {"c_fc.bias", at::zeros({3})},
                            {"ln.weight", counted({2})},
                            {"ln.bias", at::zeros({2})}};
  NamedTensors ours = round_trip(table, theirs);
  EXPECT_TRUE(ours.at("scale").equal(at::full({2}, 0.5)));
  NamedTensors biased = theirs;
  biased["ln.bias"] = at::ones({2});
  EXPECT_NE(error_of([&] {
              read(table, biased);
            }).find("model.safetensors: ln.bias: expected 0 everywhere, as the models here have none, got others"),
            std::string::npos);
  ours["scale"] = at::ones({2});
  EXPECT_EQ(error_of([&] { written(table, ours); }),
            "run: scale: expected 0.5 everywhere, as Constants has none, got others");
}

// Of a model without its head, as GPT-2 is published, with buffers that are no weights.
TEST(TensorTable, TakesNamesWithoutTheirBeginning) {
  TensorTable table("Headless");
  table.add("embedding", {2, 2}, "transformer.wte.weight");
  table.may_lack_beginning("transformer.");
  table.tied("lm_head.weight", "transformer.wte.weight");
  table.unused_ending(".attn.bias");
  const at::Tensor numbers = counted({2, 2});
  expect_same(read(table, {{"wte.weight", numbers}, {"h.0.attn.bias", at::ones({1}, at::kByte)}}),
              {{"embedding", numbers}});
  expect_same(read(table, {{"transformer.wte.weight", numbers}, {"lm_head.weight", numbers}}),
              {{"embedding", numbers}});
  EXPECT_NE(error_of([&] {
              read(table, {{"transformer.wte.weight", numbers}, {"wte.weight", numbers}});
            }).find("expected transformer.wte.weight once, got it under an older name too"),
            std::string::npos);
}

TEST(TensorTable, IsCheckedWhereItIsMade) {
  TensorTable table("Wrong");
  EXPECT_THROW(table.linear("x", {{.module = "y", .rows = 2, .order = {0, 0}}}, 1), std::logic_error);
  EXPECT_THROW(table.add("x", {2, 3}, "y", {2, 2}), std::logic_error);
}

}  // namespace
}  // namespace cogwheel::interchange::interchange_tables
