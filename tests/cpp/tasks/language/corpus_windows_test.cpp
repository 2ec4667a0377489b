#include "cogwheel/tasks/language/corpus_windows.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <numeric>
#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/packed_loss.h"
#include "cogwheel/text/byte_tokenizer.h"
#include "cogwheel/text/prepared/prepare_corpus.h"
#include "support/temporary_folder.h"

namespace cogwheel::tasks::language {
namespace {

using text::CorpusSide;

// A corpus of so many documents, none like another, in several shards.
std::shared_ptr<const text::PreparedCorpus> corpus_of(const TemporaryFolder& folder, const std::string& name,
                                                      int documents, double held_out = 0.2) {
  std::string lines;
  const std::uint64_t own = 1'000'000 * static_cast<std::uint64_t>(name.front());
  for (int document = 0; document < documents; ++document) {
    std::string words = name + std::to_string(document);
    for (std::uint64_t word = 0; word < mix(static_cast<std::uint64_t>(document)) % 12; ++word)
      words += " " + std::to_string(mix(word + own + static_cast<std::uint64_t>(document)) % 1000);
    lines += "{\"text\": \"" + words + "\"}\n";
  }
  text::CorpusRequest request{.paths = {folder.write(name + ".jsonl", lines)},
                              .tokenizer = std::make_shared<text::ByteTokenizer>(),
                              .folder = folder.path() / name,
                              .options = {.held_out = held_out, .shard_tokens = 1000}};
  text::prepare_corpus(request);
  return std::make_shared<const text::PreparedCorpus>(request.folder);
}

std::vector<std::int64_t> row_of(const at::Tensor& tensor, std::int64_t row) {
  const at::Tensor values = tensor.select(0, row).contiguous();
  return {values.const_data_ptr<std::int64_t>(), values.const_data_ptr<std::int64_t>() + values.numel()};
}

TEST(CorpusWindows, SeesEachWindowOnceInAnEpoch) {
  const TemporaryFolder folder;
  const auto corpus = corpus_of(folder, "a", 200);
  constexpr std::int64_t context = 32;
  const CorpusWindows windows({.corpora = {corpus}}, context, 3);
  const text::CorpusPart& part = corpus->part(CorpusSide::training);
  const std::int64_t count = (part.tokens() - 1) / context;
  ASSERT_EQ(windows.training_windows(0), count);
  std::vector<std::vector<std::int64_t>> all, order[2];
  for (std::int64_t window = 0; window < count; ++window) {
    all.emplace_back(context + 1);
    part.read(window * context, all.back());
  }
  for (std::int64_t epoch : {0, 1}) {
    const runs::Batch rows = windows.rows(epoch * count, count);
    EXPECT_EQ(rows.tokens, count * context);
    EXPECT_FALSE(rows.positions.defined());
    for (std::int64_t row = 0; row < count; ++row) {
      std::vector<std::int64_t> tokens = row_of(rows.inputs, row);
      tokens.push_back(row_of(rows.targets, row).back());
      EXPECT_TRUE(std::equal(tokens.begin() + 1, tokens.end(), row_of(rows.targets, row).begin()));
      order[epoch].push_back(tokens);
    }
    auto sorted = order[epoch], expected = all;
    std::sort(sorted.begin(), sorted.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(sorted, expected);
    EXPECT_NE(order[epoch], all);
  }
  EXPECT_NE(order[0], order[1]);
  // Any rows, however they are asked for.
  const at::Tensor across = windows.rows(count - 3, 7).inputs;
  for (std::int64_t row = 0; row < 7; ++row)
    EXPECT_TRUE(across.select(0, row).equal(windows.rows(count - 3 + row, 1).inputs.select(0, 0)));
  EXPECT_FALSE(across.equal(CorpusWindows({.corpora = {corpus}}, context, 4).rows(count - 3, 7).inputs));
}

TEST(CorpusMixture, GivesEachCorpusItsShareAllTheWay) {
  const std::vector<double> weights{5, 0.25, 3, 1e-9, 1.75};
  const CorpusMixture mixture(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> seen(weights.size(), 0);
  for (std::int64_t window = 0; window < 2 * CorpusMixture::period + 1000; ++window) {
    const CorpusMixture::Place place = mixture.at(window);
    ASSERT_EQ(place.of_corpus, seen[static_cast<std::size_t>(place.corpus)]++);
    for (std::size_t corpus = 0; corpus < weights.size(); ++corpus) {
      const double due = static_cast<double>(window + 1) *
                         static_cast<double>(mixture.share(static_cast<std::int64_t>(corpus))) /
                         static_cast<double>(CorpusMixture::period);
      ASSERT_LT(std::abs(static_cast<double>(seen[corpus]) - due), 2) << window << " of " << corpus;
    }
  }
  for (std::size_t corpus = 0; corpus < weights.size(); ++corpus)
    EXPECT_NEAR(static_cast<double>(mixture.share(static_cast<std::int64_t>(corpus))),
                std::max(1.0, weights[corpus] / sum * CorpusMixture::period), 1.01);
  EXPECT_EQ(CorpusMixture(std::vector<double>{7}).at(123456789).of_corpus, 123456789);
}

TEST(CorpusWindows, MixesCorporaByWeightOrTokens) {
  const TemporaryFolder folder;
  const auto small = corpus_of(folder, "small", 60), large = corpus_of(folder, "large", 180);
  const auto of_small = [&](std::vector<double> weights) {
    const CorpusWindows windows({.corpora = {small, large}, .weights = std::move(weights)}, 16, 1);
    const runs::Batch rows = windows.rows(0, 400);
    const CorpusWindows alone({.corpora = {small}}, 16, 1);
    std::set<std::vector<std::int64_t>> of_that;
    const std::int64_t all = alone.training_windows(0);
    const at::Tensor inputs = alone.rows(0, all).inputs;
    for (std::int64_t row = 0; row < all; ++row) of_that.insert(row_of(inputs, row));
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < 400; ++row) count += of_that.contains(row_of(rows.inputs, row)) ? 1 : 0;
    return static_cast<double>(count);
  };
  EXPECT_NEAR(of_small({3, 1}), 300, 1);
  EXPECT_NEAR(of_small({1, 9}), 40, 1);
  const auto tokens = [](const auto& corpus) {
    return static_cast<double>(corpus->part(CorpusSide::training).tokens());
  };
  EXPECT_NEAR(of_small({}), 400 * tokens(small) / (tokens(small) + tokens(large)), 1);
}

TEST(CorpusWindows, TunesOnOtherWindowsThanItTrainsOn) {
  const TemporaryFolder folder;
  const auto corpus = corpus_of(folder, "a", 200, 0.3);
  const CorpusWindows all({.corpora = {corpus}}, 16, 1), tuning({.corpora = {corpus}, .for_tuning = true}, 16, 1);
  const std::int64_t kept = tuning.training_windows(0);
  EXPECT_EQ(kept, all.training_windows(0) * 9 / 10);
  EXPECT_EQ(kept + tuning.evaluated_windows(), all.training_windows(0));
  std::set<std::vector<std::int64_t>> learned, held_out;
  const at::Tensor trained = tuning.rows(0, kept).inputs, evaluated = tuning.evaluated_rows().inputs,
                   never = all.evaluated_rows().inputs;
  for (std::int64_t row = 0; row < kept; ++row) learned.insert(row_of(trained, row));
  for (std::int64_t row = 0; row < never.size(0); ++row) held_out.insert(row_of(never, row));
  for (std::int64_t row = 0; row < evaluated.size(0); ++row) {
    EXPECT_FALSE(learned.contains(row_of(evaluated, row)));
    EXPECT_FALSE(held_out.contains(row_of(evaluated, row)));
  }
  // A part of what is evaluated, always the same.
  const CorpusWindows part({.corpora = {corpus}, .evaluated_tokens = 100}, 16, 1);
  EXPECT_EQ(part.evaluated_windows(), 6);
  EXPECT_EQ(part.evaluated_rows(33).inputs.size(0), 2);
}

TEST(CorpusWindows, RefusesTooLittle) {
  const TemporaryFolder folder;
  const auto corpus = corpus_of(folder, "a", 20, 0);
  EXPECT_THROW(CorpusWindows({.corpora = {corpus}}, 16, 1), Error);    // nothing held out
  EXPECT_THROW(CorpusWindows({.corpora = {corpus}}, 5000, 1), Error);  // no window
}

// Each token of packed documents has the loss that it has where its document, as far as the window holds it, is alone.
TEST(CorpusWindows, PackedDocumentsDoNotSeeEachOther) {
  const TemporaryFolder folder;
  const auto corpus = corpus_of(folder, "a", 200);
  constexpr std::int64_t context = 48;
  const CorpusWindows packed({.corpora = {corpus}, .documents = true}, context, 3),
      plain({.corpora = {corpus}}, context, 3);
  const runs::Batch rows = packed.rows(5, 6), same = plain.rows(5, 6);
  EXPECT_TRUE(rows.inputs.equal(same.inputs));
  for (const char* position : {"learned", "rotary"}) {
    LanguageModel model(LanguageModelOptions{
        .vocabulary = 256, .context = context, .layers = 2, .heads = 2, .width = 32, .position = position});
    model->initialize(3);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.mul_(4);
    const at::Tensor starts = document_starts(rows.positions);
    ASSERT_GT(starts.numel(), 12);
    const auto ends = row_of(starts.unsqueeze(0), 0);
    const at::Tensor inputs = rows.inputs.reshape({1, -1}), targets = rows.targets.reshape({1, -1});
    double sum = 0;
    std::int64_t told = 0, ignored = 0;
    for (std::size_t document = 0; document + 1 < ends.size(); ++document) {
      const auto part = [&](const at::Tensor& all) { return all.slice(1, ends[document], ends[document + 1]); };
      const std::int64_t count = (part(targets) != ignored_target).sum().item<std::int64_t>();
      ignored += ends[document + 1] - ends[document] - count;
      // Only the last token of a document has no target, and that of a window has the next one.
      EXPECT_GE(count, ends[document + 1] - ends[document] - 1);
      told += count;
      if (count > 0) sum += model->loss(part(inputs), part(targets)).item<double>() * static_cast<double>(count);
    }
    EXPECT_GT(ignored, 6);
    EXPECT_NEAR(packed_loss(*model, rows, {}).item<double>(), sum / static_cast<double>(told), 2e-6);
    EXPECT_GT(std::abs(model->loss(rows.inputs, rows.targets).item<double>() - sum / static_cast<double>(told)), 1e-4);
  }
}

}  // namespace
}  // namespace cogwheel::tasks::language
