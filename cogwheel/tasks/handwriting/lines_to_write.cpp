#include "cogwheel/tasks/handwriting/lines_to_write.h"

#include <algorithm>
#include <array>
#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/handwriting/stroke_font.h"

namespace cogwheel::tasks::handwriting {
namespace {

constexpr std::string_view english_words =
    "a able about above across act add after again against age air all almost along already also although always am "
    "among an and angle animal answer any apple april area arm around art as ask at autumn away baby back bad bag ball "
    "band bank bar base bath be bear beautiful because bed been before begin behind bell below best better between big "
    "bird black blood blow blue board boat body bone book born both bottom box boy branch bread break bridge bright "
    "bring broad brother brown build burn busy but buy by cake call calm can candle car card care carry case cat catch "
    "cause cell chain chair chance change chapter cheap child choose circle city class clean clear climb clock close "
    "cloth cloud coat coffee cold colour come cook cool copper copy corn corner cost cotton could country cover cross "
    "crowd cup current curve cut dance danger dark day dead deep desk did dinner dish do doctor does dog done door "
    "double down draw dream dress drink drive dry during dust each ear early earth east easy eat edge egg eight either "
    "empty end engine enough equal even evening ever every exact example expect eye face fact fall family far farm "
    "fast father fear feel feet few field fight figure fill find fine finger finish fire first fish five flat floor "
    "flow flower fly fold follow food foot for force forest form forty forward found four free fresh friday friend "
    "from front fruit full further future game garden gate gave general gentle get gift give glad glass go gold gone "
    "good grain grand grass great green grey ground group grow guess guide had hair half hall hand happen happy hard "
    "has hat have he head hear heart heat heavy help her here hidden high hill him his history hold home hope horse "
    "hot hour house how hundred hunt hurry ice idea if in inch ink inside into iron is island it itself jacket january "
    "jaw jelly jewel job join joke journey joy judge jump june just keep kettle key kind king kitchen knee knife know "
    "lake lamp land language large last late laugh law lay lead leaf learn least leather leave left leg length less "
    "letter level library life light like line lip liquid list listen little live lock long look loose lose lost loud "
    "love low lunch machine made make man many map march mark market may me meal mean measure meat meet memory metal "
    "middle might mile milk mind mine minute mix moment monday money month moon more morning most mother mountain "
    "mouth move much music must my nail name narrow near neck need needle never new next nice night nine no noise "
    "north nose not note nothing now number object ocean october of off often oil old on once one only open or orange "
    "order other our out over own page paint pair paper park part party pass past path pay peace pen pencil people "
    "perhaps person picture piece place plain plant plate play please pocket point poor post pot power press pretty "
    "price print prize proof proud public pull pure push put quality quarter queen question quick quiet quite rain "
    "raise reach read ready real reason record red rest rice rich ride right ring rise river road rock roof room root "
    "rope rough round row rule run sail salt same sand save say school science sea season seat second see seed seem "
    "self send sense september serve set seven several shade shake shape sharp she sheep shelf ship shirt shoe shop "
    "short should shoulder show shut side sign silk silver simple since sing sister sit six size skin sky sleep slow "
    "small smile smoke smooth snow so soap soft some song soon sort sound soup south space spade speak spell spoon "
    "spring square stage stamp stand star start state station stay steam step stick still stone stop store storm story "
    "street strong such sugar suit summer sun sure sweet swim table tail take talk tall taste tea teach tell ten test "
    "than thank that the their them then there these they thick thin thing think third this those thousand thread "
    "three through thunder thursday ticket tie time tin to today toe together tomorrow tongue too tooth top touch "
    "toward town train travel tree trial trip true trust try tuesday turn twelve twenty two ugly umbrella uncle under "
    "unit until up upon us use value van vast velvet verb very view village violet visit voice vote voyage wait walk "
    "wall want war warm was wash watch water wave wax way we weak wear weather wednesday week weight well went were "
    "west wet what wheat wheel when where which while whistle white who whole why wide wild will wind window wine wing "
    "winter wire wise with without woman wonder wood wool word work world would write wrong yard year yellow yes "
    "yesterday yet you young your zebra zero zone zoo";

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  constexpr std::string_view white = " \t\n\r\v\f";
  for (std::size_t begin = text.find_first_not_of(white); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(white, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(white, end);
  }
  return words;
}

// A word in any case belongs to one part: a tenth of all to each but training. FNV-1a.
DataPart part_of(std::string_view word) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char each : word)
    hash = (hash ^ static_cast<unsigned char>(each >= 'A' && each <= 'Z' ? each - 'A' + 'a' : each)) * 0x100000001b3;
  const std::uint64_t bucket = (hash >> 32) % 10;
  return bucket == 0 ? DataPart::held_out : bucket == 1 ? DataPart::tuning : DataPart::training;
}

std::string made_word(NumberedDraws& draws) {
  constexpr std::array<std::string_view, 36> onsets{
      "b", "c", "d", "f",  "g",  "h",  "j",  "k",  "l",  "m",  "n",  "p",  "qu", "r",  "s",  "t",  "v",   "w",
      "x", "y", "z", "bl", "br", "ch", "cl", "dr", "fl", "gr", "pl", "sh", "sk", "sp", "st", "th", "str", "wh"};
  constexpr std::array<std::string_view, 14> nuclei{"a",  "e",  "i",  "o",  "u",  "y",  "ai",
                                                    "ea", "ee", "ie", "oa", "oo", "ou", "ue"};
  constexpr std::array<std::string_view, 24> codas{"",  "",  "",  "",  "b", "d", "f",  "g",  "k",  "l",  "m",  "n",
                                                   "p", "r", "s", "t", "x", "z", "ck", "ll", "nd", "ng", "rt", "st"};
  std::string word;
  for (std::size_t syllables = 1 + draws.below(3); syllables > 0; --syllables) {
    word += onsets[draws.below(onsets.size())];
    word += nuclei[draws.below(nuclei.size())];
    word += codas[draws.below(codas.size())];
  }
  return word;
}

std::string english_word(NumberedDraws& draws) {
  static const std::vector<std::string> words = split_words(english_words);
  return words[draws.below(words.size())];
}

// So that every character is met after every other, capitals and digits included.
std::string any_characters(NumberedDraws& draws, std::string_view of, std::size_t most) {
  std::string word;
  for (std::size_t length = 1 + draws.below(most); length > 0; --length) word += of[draws.below(of.size())];
  return word;
}

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", digits = "0123456789";
constexpr std::string_view punctuation = "!\"'(),-.:;?";

void capitalize(std::string& word, std::size_t count) {
  for (std::size_t index = 0; index < std::min(count, word.size()); ++index)
    if (word[index] >= 'a' && word[index] <= 'z') word[index] = static_cast<char>(word[index] - 'a' + 'A');
}

std::string drawn_word(NumberedDraws& draws) {
  const double kind = draws.uniform();
  if (kind < 0.06) return any_characters(draws, digits, 4);
  if (kind < 0.15) return any_characters(draws, letters, 6);
  std::string word = kind < 0.4 ? made_word(draws) : english_word(draws);
  const double shape = draws.uniform();
  if (shape < 0.2) capitalize(word, 1);
  if (shape >= 0.2 && shape < 0.25) capitalize(word, word.size());
  return word;
}

std::string drawn_word_of(NumberedDraws& draws, DataPart part) {
  std::string word = drawn_word(draws);
  while (part_of(word) != part) word = drawn_word(draws);
  return word;
}

// With what may surround a word.
std::string punctuated(std::string word, NumberedDraws& draws) {
  const double kind = draws.uniform();
  if (kind < 0.03) return "\"" + word + "\"";
  if (kind < 0.05) return "(" + word + ")";
  if (kind < 0.08) return word + "'s";
  if (kind < 0.3) return word + std::string(1, std::string_view(".,.,.,!?:;-")[draws.below(11)]);
  return word;
}

}  // namespace

LinesToWrite::LinesToWrite(std::int64_t max_characters) : max_characters_(max_characters) {
  characters_ = " " + std::string(punctuation) + std::string(digits) + std::string(letters);
  std::sort(characters_.begin(), characters_.end());
}

LinesToWrite::LinesToWrite(std::string_view text, std::string_view what, std::int64_t max_characters)
    : max_characters_(max_characters), words_(split_words(text)) {
  std::erase_if(words_, [&](const std::string& word) { return std::ssize(word) > max_characters; });
  if (words_.size() < 10)
    throw Error(expected_got(what, "ten words or more of at most " + std::to_string(max_characters) + " characters",
                             std::to_string(words_.size())));
  std::set<char> characters{' '};
  for (const std::string& word : words_) {
    expect_in_font(word, what);
    characters.insert(word.begin(), word.end());
  }
  characters_.assign(characters.begin(), characters.end());
}

std::string LinesToWrite::of_text(NumberedDraws& draws, DataPart part) const {
  const std::size_t tenth = words_.size() / 10, training = words_.size() - 2 * tenth;
  const std::size_t begin = part == DataPart::training ? 0 : part == DataPart::tuning ? training : training + tenth;
  const std::size_t end = part == DataPart::training ? training : begin + tenth;
  const auto limit = static_cast<std::size_t>(max_characters_);
  std::size_t next = begin + draws.below(end - begin);
  std::string line = words_[next];
  while (++next < end && line.size() + 1 + words_[next].size() <= limit) line += " " + words_[next];
  return line;
}

std::string LinesToWrite::line(NumberedDraws& draws, DataPart part) const {
  if (!words_.empty()) return of_text(draws, part);
  const auto limit = static_cast<std::size_t>(max_characters_);
  std::string line;
  for (std::size_t words = 1 + draws.below(5); words > 0; --words) {
    const std::string word = punctuated(drawn_word_of(draws, part), draws);
    if (line.size() + (line.empty() ? 0 : 1) + word.size() > limit) continue;
    line += (line.empty() ? "" : " ") + word;
  }
  while (line.empty()) {  // the words were longer than the line: one that fits, of one character if need be
    const std::string word = any_characters(draws, letters, std::min<std::size_t>(limit, 6));
    if (part_of(word) == part) line = word;
  }
  return line;
}

std::string word_to_write(NumberedDraws& draws, DataPart part) {
  std::string word;
  do {
    word = draws.with_probability(0.5) ? made_word(draws) : english_word(draws);
  } while (part_of(word) != part || word.size() < 2);
  return word;
}

}  // namespace cogwheel::tasks::handwriting
