#include "cogwheel/tasks/translation/parallel_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/text/held_out_tenth.h"
#include "cogwheel/text/text_lines.h"

namespace cogwheel::tasks::translation {
namespace {

// Of a text without a held-out file: a tenth of its pairs, but no more than this.
constexpr std::int64_t most_held_out = 1000;

// Both files, which join the corpus.
ParallelText read_files(const ParallelFiles& files, ParallelCorpus& corpus) {
  ParallelText text;
  for (const auto& [path, lines] : {std::pair(files.source, &text.source), std::pair(files.target, &text.target)}) {
    text::TextLines read = text::read_text_lines(path);
    corpus.files.push_back({path, corpus.bytes, read.bytes, read.sha256});
    corpus.bytes += read.bytes;
    *lines = std::move(read.lines);
  }
  if (text.source.size() != text.target.size())
    throw Error(expected_got(files.target.string(),
                             fmt::format("{} lines, as {} has", text.source.size(), files.source.string()),
                             fmt::format("{} lines", text.target.size())));
  return text;
}

void expect_both(std::string_view what, const ParallelFiles& files) {
  if (files.source.empty() != files.target.empty())
    throw UsageError(expected_got(what, "a source and a target file",
                                  "only " + (files.source.empty() ? files.target : files.source).string()));
}

// Pairs of one source sentence are on one side; those with an empty side are not held out.
std::vector<bool> held_out_lines(const ParallelText& text, const std::string& name) {
  std::vector<std::string> sources;
  for (std::size_t line = 0; line < text.source.size(); ++line)
    sources.push_back(text::text_content(text.target[line]).empty() ? "" : text::text_content(text.source[line]));
  std::vector<bool> held_out = text::held_out_tenth({.keys = sources, .most = most_held_out});
  const bool some = std::any_of(sources.begin(), sources.end(), [](const auto& each) { return !each.empty(); });
  if (some && std::find(held_out.begin(), held_out.end(), true) == held_out.end())
    throw Error(expected_got(name, "two different source sentences or more, one to hold out", "only equal ones"));
  return held_out;
}

// Moves the held-out pairs of a text to another.
ParallelText take_held_out(ParallelText& text, const std::vector<bool>& held_out) {
  ParallelText taken, kept;
  for (std::size_t line = 0; line < text.source.size(); ++line) {
    ParallelText& to = held_out[line] ? taken : kept;
    to.source.push_back(std::move(text.source[line]));
    to.target.push_back(std::move(text.target[line]));
  }
  text = std::move(kept);
  return taken;
}

text::SentencePairs encode(const ParallelText& text, const text::SentenceTokenizer& tokenizer, std::int64_t longest) {
  text::SentencePairs pairs;
  for (std::size_t line = 0; line < text.source.size(); ++line) {
    const std::vector<Token> source = tokenizer.encode(text.source[line]), target = tokenizer.encode(text.target[line]);
    if (source.empty() || target.empty())
      ++pairs.empty;
    else if (std::max(std::ssize(source), std::ssize(target)) > longest)
      ++pairs.overlong;
    else
      pairs.add(source, target, static_cast<std::int64_t>(line));
  }
  return pairs;
}

void expect_pairs(std::string_view what, const text::SentencePairs& pairs, std::int64_t longest) {
  if (pairs.size() > 0) return;
  throw Error(expected_got(
      what, "pairs of sentences to learn from",
      fmt::format("{} with an empty side and {} longer than {} tokens", pairs.empty, pairs.overlong, longest)));
}

// The names of the files, without folders.
std::string name_of(const ParallelFiles& files) {
  return files.source.filename().string() + ", " + files.target.filename().string();
}

std::shared_ptr<const text::SentenceTokenizer> learn(const ParallelText& text, const ParallelOptions& options,
                                                     const std::string& name) {
  std::vector<std::string_view> lines(text.source.begin(), text.source.end());
  lines.insert(lines.end(), text.target.begin(), text.target.end());
  return text::SentencePieceTokenizer::train(lines, options.vocabulary, name, options.fewer_will_do);
}

}  // namespace

ParallelCorpus load_parallel_corpus(const ParallelOptions& options,
                                    std::shared_ptr<const text::SentenceTokenizer> tokenizer) {
  if (options.training.none()) throw UsageError(expected_got("parallel text", "a source and a target file", "none"));
  expect_both("training files", options.training);
  expect_both("held-out files", options.held_out);
  expect_both("test files", options.test);
  expect_within("vocabulary", options.vocabulary, ParallelOptions::vocabularies);
  expect_within("longest sentence", options.longest, ParallelOptions::lengths);

  ParallelCorpus corpus;
  corpus.name = name_of(options.training);
  corpus.longest = options.longest;
  ParallelText training = read_files(options.training, corpus);
  if (options.held_out.none() && training.source.size() < 10)
    throw Error(expected_got(corpus.name, "10 pairs of sentences at least, of which a tenth is held out",
                             std::to_string(training.source.size())));
  const bool of_training = options.held_out.none();
  const std::vector<bool> sides = of_training ? held_out_lines(training, corpus.name) : std::vector<bool>();
  ParallelText held_out = of_training ? take_held_out(training, sides) : read_files(options.held_out, corpus);
  if (!options.test.none()) corpus.test = read_files(options.test, corpus);
  if (!options.test.none() && corpus.test.source.empty())
    throw Error(expected_got(name_of(options.test), "lines to translate", "none"));
  Sha256 all;
  for (const text::CorpusFile& file : corpus.files) all.add(file.sha256);
  corpus.sha256 = all.digits();
  if (of_training) corpus.sha256 = text::sha256_of_split(corpus.sha256, sides);

  corpus.tokenizer = tokenizer != nullptr ? std::move(tokenizer) : learn(training, options, corpus.name);
  corpus.training = encode(training, *corpus.tokenizer, options.longest);
  corpus.held_out = encode(held_out, *corpus.tokenizer, options.longest);
  expect_pairs(corpus.name, corpus.training, options.longest);
  expect_pairs(of_training ? corpus.name + ", held-out part" : name_of(options.held_out), corpus.held_out,
               options.longest);
  corpus.test_is_held_out = options.test.none();
  if (corpus.test_is_held_out) corpus.test = std::move(held_out);
  return corpus;
}

ParallelCorpus load_parallel_corpus(const ParallelOptions& options) { return load_parallel_corpus(options, nullptr); }

std::string dropped_text(const ParallelCorpus& corpus) {
  const text::SentencePairs& pairs = corpus.training;
  std::string text;
  const auto add = [&](std::int64_t count, const std::string& why) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, why);
  };
  add(pairs.empty, "with an empty side");
  add(pairs.overlong, fmt::format("longer than {} tokens", corpus.longest));
  add(corpus.held_out.empty + corpus.held_out.overlong, "of the held-out part, for the same reasons");
  return text.empty() ? "" : "pairs of sentences: " + text;
}

SourceSentence source_sentence(const text::SentenceTokenizer& tokenizer, std::string_view text, std::int64_t longest) {
  SourceSentence sentence{.tokens = tokenizer.encode(text)};
  sentence.cut = std::ssize(sentence.tokens) > longest;
  if (sentence.cut) sentence.tokens.resize(static_cast<std::size_t>(longest));
  return sentence;
}

}  // namespace cogwheel::tasks::translation
