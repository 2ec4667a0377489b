#include "cogwheel/tasks/handwriting/generated_handwriting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/tasks/handwriting/glyph_matching.h"
#include "cogwheel/tasks/handwriting/stroke_font.h"
#include "cogwheel/tasks/handwriting/stroke_picture.h"
#include "cogwheel/tasks/handwriting/window_picture.h"

namespace cogwheel::tasks::handwriting {
namespace {

OffsetScale load_scale(const std::filesystem::path& path) {
  try {
    const auto scale = nlohmann::json::parse(read_file(path)).at("scale");
    return {scale.at("mean_x"), scale.at("mean_y"), scale.at("deviation_x"), scale.at("deviation_y")};
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(path.string(), "the scale of a handwriting run", "other JSON"));
  }
}

// With which lines begin.
StrokePoint first_point(const OffsetScale& scale) { return scale.normalized({.dx = 0, .dy = 0, .ends = false}); }

std::vector<StrokePoint> restored(std::span<const StrokePoint> points, const OffsetScale& scale) {
  std::vector<StrokePoint> drawn;
  for (const StrokePoint& point : points) drawn.push_back(scale.restored(point));
  return drawn;
}

// Words of letters alone, in the order in which held-out lines have them.
std::vector<std::string> held_out_words(const StrokeSource& source, std::int64_t count) {
  std::vector<std::string> words;
  std::set<std::string> seen;
  for (const StrokeSequence& sequence : source.held_out()) {
    std::istringstream text(sequence.text);
    for (std::string word; text >> word;) {
      if (std::ssize(words) == count) return words;
      const bool letters = word.size() >= 3 && std::all_of(word.begin(), word.end(), [](unsigned char character) {
                             return character < 0x80 && std::isalpha(character) != 0;
                           });
      if (letters && seen.insert(word).second) words.push_back(word);
    }
  }
  return words;
}

// Of characters that the font can tell apart.
std::string readable_characters(const text::CharacterTokenizer& alphabet) {
  std::string characters;
  for (Token token = 0; token < static_cast<Token>(alphabet.vocabulary()); ++token) {
    const std::string character = alphabet.decode({&token, 1});
    if (character.size() == 1 && character != " " &&
        glyph_or_null(static_cast<char32_t>(static_cast<unsigned char>(character[0]))) != nullptr)
      characters += character;
  }
  return characters;
}

struct Reading {
  std::int64_t characters = 0, right = 0;
  void add(const std::vector<CharacterMatch>& matches) {
    for (const CharacterMatch& match : matches) ++characters, right += match.matches() ? 1 : 0;
  }
  double share() const { return static_cast<double>(right) / static_cast<double>(characters); }
  std::string text() const {
    return characters == 0 ? "none" : fmt::format("{:.1f} % of {}", 100 * share(), characters);
  }
};

// What the font itself is read as: the share that a perfect model would reach.
Reading reading_of_truth(const GlyphMatcher& matcher, const StrokeSource& source, std::int64_t lines) {
  Reading reading;
  for (const StrokeSequence& sequence : source.held_out()) {
    if (lines-- == 0) break;
    if (!sequence.starts.empty())
      reading.add(matcher.match(sequence.points, sequence.text, written_characters(sequence.starts)));
  }
  return reading;
}

}  // namespace

std::string pen_record(const StrokeSource& source) {
  const OffsetScale& scale = source.scale();
  const nlohmann::ordered_json json{{"scale",
                                     {{"mean_x", scale.mean_x},
                                      {"mean_y", scale.mean_y},
                                      {"deviation_x", scale.deviation_x},
                                      {"deviation_y", scale.deviation_y}}}};
  return json.dump(1) + "\n";
}

runs::Inspection show_handwriting(Handwriting& model, const StrokeSource& source, std::uint64_t seed,
                                  std::int64_t words) {
  runs::Inspection inspection;
  constexpr double bias = 1;
  if (!model->has_window()) {
    for (std::uint64_t sample = 0; sample < 3; ++sample) {
      const GeneratedStrokes drawn =
          generate_strokes(model, {}, {.bias = bias, .seed = seed + sample, .start = first_point(source.scale())});
      inspection.figures.push_back(
          {fmt::format("Sample {}", sample + 1), WrittenStrokes{restored(drawn.points, source.scale())}});
    }
    return inspection;
  }
  const text::CharacterTokenizer& alphabet = *source.alphabet();
  const GlyphMatcher matcher(readable_characters(alphabet));
  Reading reading;
  std::int64_t ended = 0, drawn_words = 0;
  for (const std::string& word : held_out_words(source, words)) {
    const std::vector<Token> text = alphabet.encode(word, "word");
    const GeneratedStrokes drawn = generate_strokes(
        model, text,
        {.bias = bias, .seed = seed + static_cast<std::uint64_t>(drawn_words), .start = first_point(source.scale())});
    const std::vector<StrokePoint> points = restored(drawn.points, source.scale());
    reading.add(matcher.match(points, word, attended_characters(drawn.window, std::ssize(text))));
    ended += drawn.ended ? 1 : 0;
    if (drawn_words++ >= 4) continue;
    inspection.figures.push_back({word, WindowOverTime{points, word, drawn.window, "The window over time."}});
  }
  inspection.tables.push_back(
      {.title = "Handwriting read back",
       .columns = {"measure", "value"},
       .rows = {{"characters read as what they are", reading.text()},
                {"the same of true strokes", reading_of_truth(matcher, source, words).text()},
                {"samples that met the stop rule", fmt::format("{} of {}", ended, drawn_words)}}});
  if (reading.characters > 0) inspection.numbers = {{share_read, reading.share()}};
  return inspection;
}

void sample_handwriting(const runs::RunFolder& folder, const runs::SampleRequest& request,
                        const runs::SampleWriter& write) {
  if (!request.out.empty()) {
    runs::expect_no_run_file(request.out, "sample: --out");
    expect_writable(request.out);
  }
  const runs::RunConfig config = runs::load_config(folder.config_path());
  Handwriting model(config.model.as<HandwritingOptions>());
  runs::load_weights_of(*model, config, folder);
  const OffsetScale scale = load_scale(folder.path() / runs::strokes_file);
  std::shared_ptr<const text::Tokenizer> alphabet;
  std::vector<Token> text;
  if (model->has_window()) {
    alphabet = text::load_tokenizer(folder.tokenizer_path());
    text = alphabet->encode(request.prompt, "--prompt");
  }
  PrimedStrokes prime;
  if (!request.prime.empty()) {
    // A window that is not told what the strokes say would be past the prompt when they end.
    const StrokeSet set = load_strokes(request.prime, {.words_as_text = model->has_window()});
    for (const StrokePoint& point : set.sequences.front().points) prime.points.push_back(scale.normalized(point));
    if (model->has_window()) prime.text = alphabet->encode(set.sequences.front().text + " ", "--prime");
  }
  const GeneratedStrokes drawn =
      generate_strokes(model, text, {.bias = request.bias, .seed = request.sampling.seed, .start = first_point(scale)},
                       request.prime.empty() ? nullptr : &prime, [&] { return write(""); });
  if (!drawn.ended)
    request.warn(fmt::format("the stop rule was not met within {} points; the strokes are kept", drawn.points.size()));
  const std::string svg = stroke_svg(restored(drawn.points, scale), {.animated = true, .title = request.prompt});
  if (request.out.empty()) {
    write(svg);
    return;
  }
  write_file(request.out, svg);
  write(fmt::format("{} points in {}", drawn.points.size(), request.out.string()));
}

}  // namespace cogwheel::tasks::handwriting
