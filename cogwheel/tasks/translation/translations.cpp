#include "cogwheel/tasks/translation/translations.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "cogwheel/attention/mechanisms/alignment.h"
#include "cogwheel/tasks/translation/alignment_figure.h"
#include "cogwheel/tasks/translation/translation_scores.h"

namespace cogwheel::tasks::translation {
namespace {

// Sentences that are translated together: those of like length, so that little is padding.
constexpr std::size_t together = 64;

std::vector<std::size_t> by_length(const std::vector<std::vector<Token>>& sentences) {
  std::vector<std::size_t> order;
  for (std::size_t line = 0; line < sentences.size(); ++line)
    if (!sentences[line].empty()) order.push_back(line);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sentences[a].size() < sentences[b].size(); });
  return order;
}

std::string range_text(const TranslationScore& score) {
  return fmt::format("{:.1f} ({:.1f} to {:.1f})", score.score, score.low, score.high);
}

std::vector<std::string> pieces_of(const text::SentenceTokenizer& tokenizer, std::span<const Token> tokens) {
  std::vector<std::string> pieces;
  for (const Token token : tokens) pieces.push_back(tokenizer.piece(token));
  return pieces;
}

void add_scores(const std::vector<std::string>& references, const std::vector<std::string>& translations,
                const std::vector<std::string>& sources, runs::Inspection& inspection) {
  std::vector<std::int64_t> lengths;
  for (const std::string& source : sources) lengths.push_back(word_count(source));
  const TranslationScoring scoring = translation_scores(references, translations, lengths);
  pages::TextTable table{.title = "Translation",
                         .columns = {"score", "of " + std::to_string(references.size()) + " sentences"},
                         .rows = {}};
  if (!scoring.scores) {
    table.rows = {{"BLEU", "none: " + scoring.problem}};
    inspection.tables.push_back(std::move(table));
    return;
  }
  const TranslationScores& scores = *scoring.scores;
  table.rows = {{"BLEU", range_text(scores.bleu)}, {"chrF", range_text(scores.chrf)}};
  inspection.tables.push_back(std::move(table));
  pages::TextTable lengths_table{.title = "BLEU by length of the source", .columns = {"words", "BLEU"}, .rows = {}};
  for (const ScoreByLength& each : scores.by_length)
    lengths_table.rows.push_back({each.shortest == each.longest ? std::to_string(each.shortest)
                                                                : fmt::format("{} to {}", each.shortest, each.longest),
                                  range_text(each.bleu)});
  inspection.tables.push_back(std::move(lengths_table));
  inspection.tables.push_back({.title = "How scores were computed",
                               .columns = {"score", "signature of sacrebleu"},
                               .rows = {{"BLEU", scores.bleu.signature}, {"chrF", scores.chrf.signature}}});
}

}  // namespace

std::vector<std::string> translate(SequenceToSequence& model, const text::SentenceTokenizer& tokenizer,
                                   std::span<const std::string> lines, const BeamOptions& options,
                                   const std::function<void(std::size_t)>& cut) {
  std::vector<std::vector<Token>> sentences;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    SourceSentence sentence = source_sentence(tokenizer, lines[line], model->options().context - 1);
    if (sentence.cut && cut) cut(line);
    sentences.push_back(std::move(sentence.tokens));
  }
  std::vector<std::string> translations(lines.size());
  const std::vector<std::size_t> order = by_length(sentences);
  for (std::size_t first = 0; first < order.size(); first += together) {
    const std::span<const std::size_t> chosen =
        std::span(order).subspan(first, std::min(together, order.size() - first));
    std::vector<std::vector<Token>> some;
    for (const std::size_t line : chosen) some.push_back(sentences[line]);
    const SourceBatch batch = source_batch(some);
    const auto found = beam_search(model, batch.tokens, batch.lengths, text::SentenceTokens::begin,
                                   text::SentenceTokens::end, options);
    for (std::size_t i = 0; i < chosen.size(); ++i) translations[chosen[i]] = tokenizer.decode(found[i].tokens);
  }
  return translations;
}

std::vector<SentenceWeights> weights_of(SequenceToSequence& model, const text::SentenceTokenizer& tokenizer,
                                        const ParallelText& text) {
  const torch::NoGradGuard no_grad;
  std::vector<SentenceWeights> all(text.source.size());
  for (std::size_t line = 0; line < text.source.size(); ++line) {
    text::SentencePairs pair;
    pair.add(tokenizer.encode(text.source[line]), tokenizer.encode(text.target[line]), 0);
    const std::int64_t only = 0;
    const SentenceBatch batch = sentence_batch(pair, {&only, 1});
    const at::Tensor weights =
        model->weights(model->read(batch.source.tokens, batch.source.lengths), batch.inputs).mean(1).squeeze(0);
    SentenceWeights& found = all[line];
    found.targets = weights.size(0) - 1;
    found.sources = weights.size(1) - 1;
    const at::Tensor kept =
        weights.narrow(0, 0, found.targets).narrow(1, 0, found.sources).to(at::kFloat).cpu().contiguous();
    found.weights.assign(kept.const_data_ptr<float>(), kept.const_data_ptr<float>() + kept.numel());
  }
  return all;
}

runs::Inspection show_translations(SequenceToSequence& model, const TranslationData& data, std::int64_t most,
                                   const BeamOptions& options) {
  const text::SentenceTokenizer& tokenizer = data.tokenizer();
  ParallelText text = data.test();
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(most, std::ssize(text.source)));
  text.source.resize(count);
  text.target.resize(count);
  runs::Inspection inspection;
  std::int64_t cut = 0;
  const std::vector<std::string> translations =
      translate(model, tokenizer, text.source, options, [&](std::size_t) { ++cut; });
  add_scores(text.target, translations, text.source, inspection);
  if (cut > 0)
    inspection.tables.front().rows.push_back(
        {fmt::format("sources cut to {} tokens", model->options().context - 1), std::to_string(cut)});
  pages::TextTable examples{.title = "Examples", .columns = {"source", "translation", "reference"}, .rows = {}};
  for (std::size_t line = 0; line < std::min<std::size_t>(count, 5); ++line)
    examples.rows.push_back({text.source[line], translations[line], text.target[line]});
  inspection.tables.push_back(std::move(examples));
  if (count > 0) {
    inspection.prompt = text.source.front();
    inspection.sample = translations.front();
  }
  if (!model->aligns()) return inspection;

  const std::vector<SentenceWeights> weights = weights_of(model, tokenizer, text);
  std::vector<double> reorderings;
  AlignmentError error;
  for (std::size_t line = 0; line < weights.size(); ++line) {
    const SentenceWeights& each = weights[line];
    const std::vector<WordLink> links = links_of({each.weights, each.sources, each.targets, each.sources});
    reorderings.push_back(reordering(links));
    if (!data.test_links().empty()) error.add(links, data.test_links()[line]);
  }
  if (!data.test_links().empty())
    inspection.tables.insert(inspection.tables.begin(),
                             {.title = "Alignment",
                              .columns = {"measure", "of " + std::to_string(count) + " sentences"},
                              .rows = {{"alignment error rate", fmt::format("{:.3f}", error.rate())}}});
  std::size_t shown = 0;
  for (const std::int64_t line : least_monotonic_first(reorderings)) {
    constexpr std::int64_t readable = 24;
    const SentenceWeights& each = weights[static_cast<std::size_t>(line)];
    if (each.targets == 0 || each.sources == 0 || each.targets > readable || each.sources > readable) continue;
    if (shown++ == 4) break;
    const std::string &source = text.source[static_cast<std::size_t>(line)],
                      &target = text.target[static_cast<std::size_t>(line)];
    AlignmentFigure figure{
        .caption = "Weights of the true translation, mean over heads.",
        .source = pieces_of(tokenizer, tokenizer.encode(source)),
        .target = pieces_of(tokenizer, tokenizer.encode(target)),
        .panels = {
            {.title = find_alignment(model->options().mechanism).title(), .weights = each.weights, .error_rate = {}}}};
    if (!data.test_links().empty()) {
      const std::vector<WordLink>& gold = data.test_links()[static_cast<std::size_t>(line)];
      figure.panels.front().gold = gold;
      figure.panels.push_back(gold_panel("true links", gold, figure.target.size(), figure.source.size()));
    }
    inspection.figures.push_back({source, std::move(figure)});
  }
  return inspection;
}

}  // namespace cogwheel::tasks::translation
