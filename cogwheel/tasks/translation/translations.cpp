#include "cogwheel/tasks/translation/translations.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

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

std::vector<WordLink> links_of_sentence(const SentenceWeights& each) {
  return links_of({each.weights, each.sources, each.targets, each.sources});
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

// Lines whose translations were found together, and their tokens.
struct FoundTranslations {
  std::span<const std::size_t> lines;
  const std::vector<std::vector<Token>>& sources;
  const SourceBatch& batch;
  const std::vector<Translation>& translations;
};

void find_translations(Translator& model, const text::SentenceTokenizer& tokenizer, std::span<const std::string> lines,
                       const BeamOptions& options, const std::function<void(std::size_t)>& cut,
                       const std::function<void(const FoundTranslations&)>& take) {
  std::vector<std::vector<Token>> sentences;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    SourceSentence sentence = source_sentence(tokenizer, lines[line], model.context() - 1);
    if (sentence.cut && cut) cut(line);
    sentences.push_back(std::move(sentence.tokens));
  }
  const std::vector<std::size_t> order = by_length(sentences);
  for (std::size_t first = 0; first < order.size(); first += together) {
    const std::span<const std::size_t> chosen =
        std::span(order).subspan(first, std::min(together, order.size() - first));
    std::vector<std::vector<Token>> some;
    for (const std::size_t line : chosen) some.push_back(sentences[line]);
    const SourceBatch batch = source_batch(some);
    const auto found = beam_search(model, batch.tokens, batch.lengths, text::SentenceTokens::begin,
                                   text::SentenceTokens::end, options);
    take({chosen, some, batch, found});
  }
}

}  // namespace

std::vector<std::string> translate(Translator& model, const text::SentenceTokenizer& tokenizer,
                                   std::span<const std::string> lines, const BeamOptions& options,
                                   const std::function<void(std::size_t)>& cut) {
  std::vector<std::string> texts(lines.size());
  find_translations(model, tokenizer, lines, options, cut, [&](const FoundTranslations& found) {
    for (std::size_t i = 0; i < found.lines.size(); ++i)
      texts[found.lines[i]] = tokenizer.decode(found.translations[i].tokens);
  });
  return texts;
}

std::vector<AlignedTranslation> translate_aligned(Translator& model, const text::SentenceTokenizer& tokenizer,
                                                  std::span<const std::string> lines, const BeamOptions& options,
                                                  std::optional<std::int64_t> layer,
                                                  const std::function<void(std::size_t)>& cut) {
  std::vector<AlignedTranslation> all(lines.size());
  find_translations(model, tokenizer, lines, options, cut, [&](const FoundTranslations& found) {
    const at::Tensor weights = alignment_weights(model, found.batch.tokens, found.batch.lengths,
                                                 text::SentenceTokens::begin, found.translations, layer)
                                   .mean(1);
    for (std::size_t i = 0; i < found.lines.size(); ++i) {
      const std::vector<Token>&source = found.sources[i], &target = found.translations[i].tokens;
      const at::Tensor rows =
          weights[static_cast<std::int64_t>(i)].narrow(1, 0, std::ssize(source)).to(at::kFloat).cpu().contiguous();
      const std::vector<WordLink> links =
          links_of({.weights = {rows.const_data_ptr<float>(), static_cast<std::size_t>(rows.numel())},
                    .columns = std::ssize(source),
                    .targets = std::ssize(target),
                    .sources = std::ssize(source)});
      all[found.lines[i]] = {tokenizer.decode(target), links_of_words(links, words_of_tokens(tokenizer, source),
                                                                      words_of_tokens(tokenizer, target))};
    }
  });
  return all;
}

std::vector<std::int64_t> words_of_tokens(const text::SentenceTokenizer& tokenizer, std::span<const Token> tokens) {
  std::vector<std::int64_t> words;
  std::int64_t word = 0;
  bool any = false, begins = true;
  for (const Token token : tokens) {
    if (tokenizer.is_space(token)) {
      begins = true;
    } else {
      if (any && (begins || tokenizer.begins_word(token))) ++word;
      any = true, begins = false;
    }
    words.push_back(word);
  }
  return words;
}

std::vector<SentenceWeights> weights_of(Translator& model, const text::SentenceTokenizer& tokenizer,
                                        const ParallelText& text, std::optional<std::int64_t> layer) {
  const torch::NoGradGuard no_grad;
  std::vector<SentenceWeights> all(text.source.size());
  for (std::size_t line = 0; line < text.source.size(); ++line) {
    text::SentencePairs pair;
    pair.add(tokenizer.encode(text.source[line]), tokenizer.encode(text.target[line]), 0);
    const std::int64_t only = 0;
    const SentenceBatch batch = sentence_batch(pair, {&only, 1});
    if (std::max(batch.source.tokens.size(1), batch.inputs.size(1)) > model.longest()) continue;
    const at::Tensor weights =
        model.source_weights(batch.source.tokens, batch.source.lengths, batch.inputs, layer).mean(1).squeeze(0);
    SentenceWeights& found = all[line];
    found.targets = weights.size(0) - 1;
    found.sources = weights.size(1) - 1;
    const at::Tensor kept =
        weights.narrow(0, 0, found.targets).narrow(1, 0, found.sources).to(at::kFloat).cpu().contiguous();
    found.weights.assign(kept.const_data_ptr<float>(), kept.const_data_ptr<float>() + kept.numel());
  }
  return all;
}

runs::Inspection show_translations(Translator& model, const TranslationData& data, std::int64_t most,
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
        {fmt::format("sources cut to {} tokens", model.context() - 1), std::to_string(cut)});
  pages::TextTable examples{.title = "Examples", .columns = {"source", "translation", "reference"}, .rows = {}};
  for (std::size_t line = 0; line < std::min<std::size_t>(count, 5); ++line)
    examples.rows.push_back({text.source[line], translations[line], text.target[line]});
  inspection.tables.push_back(std::move(examples));
  if (count > 0) {
    inspection.prompt = text.source.front();
    inspection.sample = translations.front();
  }
  if (!model.aligns()) return inspection;
  const std::string of_layer = model.aligning_layers() == 1
                                   ? "mean over heads."
                                   : fmt::format("mean over heads of the decoder's layer {} of {}, counted from 0.",
                                                 model.aligning_layer(), model.aligning_layers());

  const std::vector<SentenceWeights> weights = weights_of(model, tokenizer, text);
  std::vector<double> reorderings;
  for (const SentenceWeights& each : weights) reorderings.push_back(reordering(links_of_sentence(each)));
  if (!data.test_links().empty()) {
    const auto rate = [&](const std::vector<SentenceWeights>& all) {
      AlignmentError error;
      for (std::size_t line = 0; line < all.size(); ++line)
        error.add(links_of_sentence(all[line]), data.test_links()[line]);
      return fmt::format("{:.3f}", error.rate());
    };
    pages::TextTable table{.title = "Alignment",
                           .columns = {"measure", "of " + std::to_string(count) + " sentences"},
                           .rows = {{"alignment error rate", rate(weights)}}};
    for (std::int64_t layer = 0; layer < model.aligning_layers(); ++layer)
      if (layer != model.aligning_layer())
        table.rows.push_back(
            {"that of layer " + std::to_string(layer), rate(weights_of(model, tokenizer, text, layer))});
    inspection.tables.insert(inspection.tables.begin(), std::move(table));
  }
  std::size_t shown = 0;
  for (const std::int64_t line : least_monotonic_first(reorderings)) {
    constexpr std::int64_t readable = 24;
    const SentenceWeights& each = weights[static_cast<std::size_t>(line)];
    if (each.targets == 0 || each.sources == 0 || each.targets > readable || each.sources > readable) continue;
    if (shown++ == 4) break;
    const std::string &source = text.source[static_cast<std::size_t>(line)],
                      &target = text.target[static_cast<std::size_t>(line)];
    AlignmentFigure figure{.caption = "Weights of the true translation, " + of_layer,
                           .source = pieces_of(tokenizer, tokenizer.encode(source)),
                           .target = pieces_of(tokenizer, tokenizer.encode(target)),
                           .panels = {{.title = model.alignment_title(), .weights = each.weights, .error_rate = {}}}};
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
