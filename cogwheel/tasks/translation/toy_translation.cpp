#include "cogwheel/tasks/translation/toy_translation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"

namespace cogwheel::tasks::translation {
namespace {

// A word and its translation; a second word of either, where it is not empty: a particle that has no translation of its
// own, or the second half of one that takes two words.
struct Entry {
  std::string_view source, target, particle = "", second = "";
};

constexpr std::array nouns{Entry{"dog", "hundo"},
                           Entry{"cat", "kato"},
                           Entry{"bird", "birdo"},
                           Entry{"horse", "cevalo"},
                           Entry{"child", "infano"},
                           Entry{"king", "rego"},
                           Entry{"farmer", "terulo"},
                           Entry{"teacher", "majstro"},
                           Entry{"house", "domo"},
                           Entry{"garden", "gardeno"},
                           Entry{"river", "rivero"},
                           Entry{"tree", "arbo"},
                           Entry{"letter", "letero"},
                           Entry{"table", "tablo"},
                           Entry{"city", "urbo"},
                           Entry{"bridge", "ponto"},
                           Entry{"grandmother", "patrino", "", "granda"},
                           Entry{"bookshop", "vendejo", "", "libra"},
                           Entry{"railway", "vojo", "", "fera"},
                           Entry{"sunflower", "floro", "", "suna"},
                           Entry{"lighthouse", "turo", "", "luma"},
                           Entry{"notebook", "kajero", "", "skriba"},
                           Entry{"windmill", "muelilo", "", "venta"},
                           Entry{"snowman", "viro", "", "nega"}};
constexpr std::array adjectives{Entry{"small", "eta"},    Entry{"red", "ruga"},   Entry{"old", "olda"},
                                Entry{"white", "blanka"}, Entry{"young", "juna"}, Entry{"quiet", "kvieta"},
                                Entry{"clever", "saga"},  Entry{"tired", "laca"}, Entry{"happy", "feliza"},
                                Entry{"green", "verda"},  Entry{"tall", "alta"},  Entry{"strange", "stranga"}};
constexpr std::array verbs{Entry{"sees", "vidas"},
                           Entry{"finds", "trovas"},
                           Entry{"follows", "sekvas"},
                           Entry{"likes", "amas"},
                           Entry{"hears", "audas"},
                           Entry{"draws", "desegnas"},
                           Entry{"paints", "farbas"},
                           Entry{"carries", "portas"},
                           Entry{"looks", "rigardas", "at"},
                           Entry{"waits", "atendas", "for"},
                           Entry{"dreams", "songas", "of"},
                           Entry{"listens", "auskultas", "to"},
                           Entry{"visits", "faras", "", "viziton"},
                           Entry{"helps", "donas", "", "manon"},
                           Entry{"remembers", "tenas", "", "kape"},
                           Entry{"forgets", "lasas", "", "fali"}};
constexpr std::array adverbs{Entry{"today", "hodie"},  Entry{"often", "ofte"},   Entry{"slowly", "lante"},
                             Entry{"again", "denove"}, Entry{"never", "neniam"}, Entry{"gladly", "volonte"}};
constexpr std::array prepositions{Entry{"in", "en"},     Entry{"near", "apud"},     Entry{"behind", "post"},
                                  Entry{"under", "sub"}, Entry{"beside", "flanke"}, Entry{"above", "super"}};
constexpr std::string_view definite = "the", indefinite = "a", one = "unu", ending = "la";  // the dog: hundola

// Writes a sentence. Each target word goes into the current part of the translation, which a caller orders.
class Writer {
 public:
  struct Word {
    std::string text;
    std::vector<std::pair<std::int64_t, bool>> links;  // source word, whether sure
  };
  using Words = std::vector<Word>;

  Writer(std::uint64_t seed, ToyPart part, std::int64_t index)
      : key_(random_of({seed, static_cast<std::uint64_t>(part), static_cast<std::uint64_t>(index)})) {}

  // A number below `bound`, each as probable.
  std::int64_t draw(std::int64_t bound) {
    return static_cast<std::int64_t>(bounded(random_of({key_, drawn_++}), static_cast<std::uint64_t>(bound)));
  }

  Words noun_phrase(std::int64_t adjective_count) {
    const bool known = draw(2) == 0;
    const std::int64_t article = put(known ? definite : indefinite);
    Words behind;
    for (std::int64_t left = adjective_count; left > 0; --left) {
      const Entry& adjective = any(adjectives);
      behind.insert(behind.begin(), {std::string(adjective.target), {{put(adjective.source), true}}});
    }
    const Entry& noun = any(nouns);
    const std::int64_t place = put(noun.source);
    Words words;
    if (!known) words.push_back({std::string(one), {{article, true}}});
    words.push_back({std::string(noun.target) + std::string(known ? ending : ""), {{place, true}}});
    if (known) words.back().links.emplace_back(article, false);
    if (!noun.second.empty()) words.push_back({std::string(noun.second), {{place, true}}});
    words.insert(words.end(), behind.begin(), behind.end());
    return words;
  }

  // With so many words in the source, at least 3.
  Words place_phrase(std::int64_t words) {
    Words phrase = word(any(prepositions));
    append(phrase, noun_phrase(words - 3));
    return phrase;
  }

  Words word(const Entry& entry) {
    const std::int64_t place = put(entry.source);
    Words words{{std::string(entry.target), {{place, true}}}};
    if (!entry.particle.empty()) words.back().links.emplace_back(put(entry.particle), false);
    if (!entry.second.empty()) words.push_back({std::string(entry.second), {{place, true}}});
    return words;
  }

  template <std::size_t size>
  const Entry& any(const std::array<Entry, size>& entries) {
    return entries[static_cast<std::size_t>(draw(static_cast<std::int64_t>(size)))];
  }

  static void append(Words& words, Words more) {
    words.insert(words.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }

  ToySentence finish(Words words) && {
    ToySentence sentence{.source = std::move(source_), .target = {}, .links = {}};
    for (Word& word : words) {
      for (const auto& [source, sure] : word.links)
        sentence.links.push_back({source, std::ssize(sentence.target), sure});
      sentence.target.push_back(std::move(word.text));
    }
    return sentence;
  }

 private:
  std::int64_t put(std::string_view word) {
    source_.emplace_back(word);
    return std::ssize(source_) - 1;
  }

  std::uint64_t key_, drawn_ = 0;
  std::vector<std::string> source_;
};

std::shared_ptr<const text::SentenceTokenizer> tokenizer_of_words() {
  std::set<std::string> words{std::string(definite), std::string(indefinite), std::string(one)};
  const auto add = [&](std::span<const Entry> entries) {
    for (const Entry& entry : entries)
      for (const std::string_view word : {entry.source, entry.target, entry.particle, entry.second})
        if (!word.empty()) words.emplace(word);
  };
  for (const std::span<const Entry> entries :
       {std::span<const Entry>(adjectives), std::span<const Entry>(verbs), std::span<const Entry>(adverbs),
        std::span<const Entry>(prepositions), std::span<const Entry>(nouns)})
    add(entries);
  for (const Entry& noun : nouns) words.emplace(std::string(noun.target) + std::string(ending));
  return std::make_shared<text::WordTokenizer>(std::vector<std::string>(words.begin(), words.end()));
}

}  // namespace

ToySentence toy_sentence(const ToyLanguage& language, std::uint64_t seed, ToyPart part, std::int64_t index) {
  expect_within("distance", language.distance, ToyLanguage::distances);
  Writer writer(seed, part, index);
  // None as often as one or two together.
  const auto adjective_count = [&] { return std::max<std::int64_t>(0, writer.draw(4) - 1); };
  Writer::Words words = writer.noun_phrase(adjective_count());
  if (writer.draw(3) == 0) Writer::append(words, writer.word(writer.any(adverbs)));
  Writer::Words last = writer.word(writer.any(verbs));
  Writer::append(words, writer.noun_phrase(adjective_count()));
  if (writer.draw(2) == 0) Writer::append(words, writer.place_phrase(3 + adjective_count()));
  Writer::append(words, std::move(last));

  Writer::Words first;
  for (std::int64_t left = language.distance; left > 0;) {
    // A phrase takes 3 to 5 words, and leaves no rest that is too short for another; 1 or 2 words are adverbs.
    const std::int64_t length = left < 3 ? 1 : left < 6 ? left : 3 + writer.draw(std::min<std::int64_t>(3, left - 5));
    Writer::append(first, length == 1 ? writer.word(writer.any(adverbs)) : writer.place_phrase(length));
    left -= length;
  }
  Writer::append(first, std::move(words));
  return std::move(writer).finish(std::move(first));
}

text::SentencePairs toy_pairs(const ToyLanguage& language, std::uint64_t seed, ToyPart part, std::int64_t first,
                              std::int64_t count) {
  const auto tokenizer = toy_tokenizer();
  text::SentencePairs pairs;
  for (std::int64_t index = first; index < first + count; ++index) {
    const ToySentence sentence = toy_sentence(language, seed, part, index);
    const std::vector<Token> source = tokenizer->encode(fmt::format("{}", fmt::join(sentence.source, " ")));
    const std::vector<Token> target = tokenizer->encode(fmt::format("{}", fmt::join(sentence.target, " ")));
    pairs.add(source, target, index);
  }
  return pairs;
}

std::shared_ptr<const text::SentenceTokenizer> toy_tokenizer() {
  static const std::shared_ptr<const text::SentenceTokenizer> tokenizer = tokenizer_of_words();
  return tokenizer;
}

}  // namespace cogwheel::tasks::translation
