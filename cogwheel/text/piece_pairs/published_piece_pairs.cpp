#include <algorithm>
#include <nlohmann/json.hpp>

#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"
#include "cogwheel/text/byte_pairs/published_tokens.h"
#include "cogwheel/text/piece_pairs/piece_pair_vocabulary.h"

namespace cogwheel::text {
namespace {

constexpr std::string_view shown_space = "▁";

// What replaces one text by another.
bool replaces(const JsonPart& part, std::string_view from, std::string_view to) {
  return part.type() == "Replace" && part.at("pattern").at("String").is(from) && part.at("content").is(to);
}

// Spaces become ▁, and a text gets one before it, by the normalizer or by the pre-tokenizer.
LeadingSpace leading_space(const JsonPart& all) {
  const std::vector<JsonPart> normalizers = all.at("normalizer").steps("normalizers");
  const JsonPart words = all.at("pre_tokenizer");
  if (!normalizers.empty()) {
    const bool prepends = normalizers.front().type() == "Prepend";
    if (prepends) normalizers.front().expect("prepend", shown_space);
    for (const JsonPart& part : std::span(normalizers).subspan(prepends ? 1 : 0))
      if (!replaces(part, " ", shown_space)) part.refuse("Prepend or Replace of a space by ▁", part.type());
    if (normalizers.size() > (prepends ? 2U : 1U) || (prepends && normalizers.size() == 1))
      all.at("normalizer").refuse("Prepend and Replace", all.at("normalizer").shown());
    if (!words.missing()) words.refuse("none beside such a normalizer", words.type());
    return prepends ? LeadingSpace::always : LeadingSpace::never;
  }
  if (words.type() != "Metaspace")
    words.refuse("ByteLevel or Metaspace, or a normalizer that shows spaces", words.type());
  words.expect("replacement", shown_space);
  words.expect("split", false);
  const JsonPart scheme = words.at("prepend_scheme");
  if (scheme.is("always")) return LeadingSpace::where_missing;
  if (scheme.is("first")) return LeadingSpace::first_if_missing;
  if (!scheme.is("never")) scheme.refuse("always, first or never", scheme.shown());
  return LeadingSpace::never;
}

// Whether the decoder leaves a space at the beginning out.
bool drops_leading_space(const JsonPart& decoder) {
  const std::vector<JsonPart> steps = decoder.steps("decoders");
  constexpr const char* expected = "Replace of ▁ by a space, ByteFallback, Fuse, and Strip or nothing";
  if (steps.size() < 3 || steps.size() > 4) decoder.refuse(expected, decoder.type());
  if (!replaces(steps[0], shown_space, " ") || steps[1].type() != "ByteFallback" || steps[2].type() != "Fuse")
    decoder.refuse(expected, decoder.shown());
  if (steps.size() == 3) return false;
  if (steps[3].type() != "Strip") steps[3].refuse(expected, steps[3].type());
  steps[3].expect("content", " ");
  steps[3].expect("start", 1);
  steps[3].expect("stop", 0);
  return true;
}

}  // namespace

PiecePairVocabulary hugging_face_piece_pairs(const nlohmann::json& json, std::string_view what) {
  const JsonPart all(json, std::string(what));
  PublishedTokens published = published_tokens(all);
  const JsonPart model = all.at("model");
  PiecePairVocabulary vocabulary{.tokens = {},
                                 .merges = std::move(published.merges),
                                 .special = std::move(published.special),
                                 .added = std::move(published.added),
                                 .bytes = model.at("byte_fallback").is(true),
                                 .whole_words = published.whole_words,
                                 .leading = leading_space(all),
                                 .drops_leading = drops_leading_space(all.at("decoder")),
                                 .beginning = published.beginning,
                                 .end_of_document = published.end};
  if (const JsonPart unknown = model.at("unk_token"); !unknown.missing()) {
    vocabulary.unknown = TokensByText(published.tokens)(unknown.text(), unknown.what());
    if (!vocabulary.bytes) model.expect("fuse_unk", true);
  }
  vocabulary.tokens = std::move(published.tokens);
  if (!vocabulary.end_of_document)
    vocabulary.end_of_document = named_end_of_document(vocabulary.tokens, vocabulary.special);
  return vocabulary;
}

}  // namespace cogwheel::text
