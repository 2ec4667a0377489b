// From files to a corpus and back.
#include "cogwheel/text/prepared/prepared_corpus.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/random.h"
#include "cogwheel/text/byte_tokenizer.h"
#include "cogwheel/text/prepared/corpus_check.h"
#include "cogwheel/text/prepared/prepare_corpus.h"
#include "support/gzip.h"
#include "support/temporary_folder.h"

namespace cogwheel::text {
namespace {

namespace fs = std::filesystem;

std::string zstandard(const std::string& text) {
  // With a checksum, as the program does.
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> stream(::ZSTD_createCCtx(), ::ZSTD_freeCCtx);
  ::ZSTD_CCtx_setParameter(stream.get(), ZSTD_c_checksumFlag, 1);
  std::string compressed(::ZSTD_compressBound(text.size()), '\0');
  compressed.resize(::ZSTD_compress2(stream.get(), compressed.data(), compressed.size(), text.data(), text.size()));
  return compressed;
}

std::string json_line(const std::string& text) { return nlohmann::json{{"n", 1}, {"text", text}}.dump() + "\n"; }

// Documents of different lengths, of which some are equal.
std::string json_lines(int count, int seed) {
  std::string lines;
  for (int document = 0; document < count; ++document) {
    std::string text = "Text " + std::to_string(document % (count - count / 10)) + " of " + std::to_string(seed) + ":";
    const auto words = mix(static_cast<std::uint64_t>(document % (count - count / 10) + 1000 * seed)) % 90;
    for (std::uint64_t word = 0; word < words; ++word) text += " wörd" + std::to_string(mix(word + words) % 977);
    lines += json_line(text);
  }
  return lines;
}

CorpusRequest request_for(const fs::path& path, const fs::path& folder) {
  CorpusRequest request{
      .paths = {path}, .tokenizer = std::make_shared<ByteTokenizer>(), .folder = folder, .options = {}};
  request.options.held_out = 0.1;
  return request;
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files[entry.path().filename()] = read_file(entry.path());
  return files;
}

// Every document of a side.
std::vector<std::string> documents_of(const PreparedCorpus& corpus, CorpusSide side) {
  const CorpusPart& part = corpus.part(side);
  std::vector<std::string> documents;
  for (std::int64_t document = 0; document < part.documents(); ++document) {
    const std::int64_t begin = part.document_begin(document);
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(part.document_end(document) - begin));
    part.read(begin, tokens);
    documents.push_back(corpus.tokenizer()->decode(std::vector<Token>(tokens.begin(), tokens.end())));
  }
  return documents;
}

std::vector<std::string> documents_from(const fs::path& path, CorpusOptions options = {.held_out = 0}) {
  const TemporaryFolder folder;
  CorpusRequest request = request_for(path, folder.path() / "corpus");
  request.options = options;
  prepare_corpus(request);
  return documents_of(PreparedCorpus(request.folder), CorpusSide::training);
}

template <class Do>
std::string refusal_of(const Do& act) {
  try {
    act();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "expected to be refused";
  return "";
}

std::string refusal_of_source(const fs::path& path, CorpusOptions options = {}) {
  return refusal_of([&] { documents_from(path, options); });
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}

// A folder with a source of each form.
struct Mixed {
  TemporaryFolder folder;
  Mixed() {
    folder.write("in/a.jsonl", json_lines(400, 1));
    folder.write("in/b.txt", "A file is one document.\nOf two lines.\n");
    folder.write("in/deep/c.jsonl.gz", gzipped(json_lines(300, 2), folder.path() / "scratch"));
    folder.write("in/deep/d.jsonl.zst", zstandard(json_lines(300, 3)));
    folder.write("in/deep/e.txt.gz", gzipped("compressed text", folder.path() / "scratch"));
    folder.write("in/z.jsonl", json_lines(200, 1));
  }
  CorpusRequest request(const std::string& out, int threads = 1) const {
    CorpusRequest request = request_for(folder.path() / "in", folder.path() / out);
    request.threads = threads;
    request.options.shard_tokens = 90'000;
    return request;
  }
};

TEST(PreparedCorpus, HoldsEachDocumentOnceAndInOrder) {
  const TemporaryFolder folder;
  const fs::path source =
      folder.write("a.jsonl", json_line("first") + "\n  \n" + json_line("") + json_line("zwölf \"\n\\") +
                                  json_line("first") + "{\"text\": \"last, without an end\"}");
  CorpusRequest request = request_for(source, folder.path() / "corpus");
  request.options.held_out = 0;
  const PreparedFolder prepared = prepare_corpus(request);
  EXPECT_EQ(prepared.index.counts.duplicates, 1);
  EXPECT_EQ(prepared.index.counts.empty, 1);
  EXPECT_EQ(prepared.index.sources.front().documents, 7);  // lines
  EXPECT_EQ(prepared.index.sources.front().sha256, sha256(read_file(source)));
  const PreparedCorpus corpus(request.folder);
  EXPECT_EQ(documents_of(corpus, CorpusSide::training),
            (std::vector<std::string>{"first", "zwölf \"\n\\", "last, without an end"}));
  EXPECT_EQ(corpus.part(CorpusSide::held_out).documents(), 0);
  verify_corpus(corpus);
  EXPECT_EQ(corpus.sha256(), sha256(read_file(request.folder / "index.json")));
  EXPECT_TRUE(prepare_corpus(request).was_there);
}

TEST(PreparedCorpus, IsTheSameForAnyThreadsAndPlace) {
  const Mixed mixed;
  const PreparedFolder first = prepare_corpus(mixed.request("one"));
  EXPECT_GT(first.index.shards.size(), 3u);
  EXPECT_EQ(first.index.sources.size(), 6u);
  EXPECT_GT(first.index.counts.duplicates, 100);
  EXPECT_GT(first.index.counts.sides[1].documents, 20);
  for (const int threads : {2, 3, 7}) {
    prepare_corpus(mixed.request(std::to_string(threads), threads));
    EXPECT_EQ(files_of(mixed.folder.path() / std::to_string(threads)), files_of(mixed.folder.path() / "one"));
  }
  verify_corpus(PreparedCorpus(mixed.folder.path() / "one"));
  // Its own folders are no part of the sources.
  CorpusRequest around = mixed.request("in/out");
  prepare_corpus(around);
  EXPECT_EQ(PreparedCorpus(around.folder).index().counts, first.index.counts);
}

TEST(PreparedCorpus, HoldsOutByHash) {
  const Mixed mixed;
  CorpusRequest request = mixed.request("corpus");
  prepare_corpus(request);
  const PreparedCorpus corpus(request.folder);
  for (const CorpusSide side : corpus_sides)
    for (const std::string& text : documents_of(corpus, side)) {
      Sha256 hash;
      hash.add(text);
      EXPECT_EQ(is_held_out(hash.bytes(), 0.1), side == CorpusSide::held_out);
    }
  const auto [training, held_out] = corpus.index().counts.sides;
  const double all = static_cast<double>(training.documents + held_out.documents);
  EXPECT_NEAR(static_cast<double>(held_out.documents) / all, 0.1, 4 * std::sqrt(0.09 / all));
}

TEST(PreparedCorpus, ReadsCompressedFilesPieceByPiece) {
  const TemporaryFolder folder;
  std::string text;
  for (int line = 0; line < 60'000; ++line) text += std::to_string(mix(static_cast<std::uint64_t>(line))) + "\n";
  const std::string once = gzipped(text, folder.path() / "scratch");
  EXPECT_EQ(documents_from(folder.write("a.gz", once)), std::vector<std::string>{text});
  EXPECT_EQ(documents_from(folder.write("b.gz", once + once)), std::vector<std::string>{text + text});
  EXPECT_EQ(documents_from(folder.write("c.zst", zstandard(text))), std::vector<std::string>{text});
  EXPECT_EQ(documents_from(folder.write("d.zst", zstandard(text) + zstandard(text))),
            std::vector<std::string>{text + text});
  for (const auto& [name, bytes] : {std::pair<std::string, std::string>("e.gz", once), {"e.zst", zstandard(text)}}) {
    expect_part(refusal_of_source(folder.write(name, bytes.substr(0, bytes.size() - 5))), name + ": expected a whole");
    std::string damaged = bytes;
    damaged[bytes.size() / 2] ^= 0x55;
    expect_part(refusal_of_source(folder.write("f" + name, damaged)), "f" + name + ": expected");
    expect_part(refusal_of_source(folder.write("g" + name, "no compression at all")), "damaged compression");
  }
}

// A window is memory that a few bytes ask for.
TEST(PreparedCorpus, RefusesALargerWindowThanZstandardDoes) {
  const TemporaryFolder folder;
  // The format's magic number, a descriptor with nothing set, the window of 2^(10 + exponent) bytes in its upper five
  // bits, and a last block of three raw bytes.
  const auto frame = [](int exponent) {
    return std::string("\x28\xb5\x2f\xfd") + '\0' + static_cast<char>(exponent << 3) + "\x19" + std::string(2, '\0') +
           "abc";
  };
  EXPECT_EQ(documents_from(folder.write("a.zst", frame(17))), std::vector<std::string>{"abc"});
  for (const int exponent : {18, 21, 31}) {
    const fs::path path = folder.write("b.zst", frame(exponent));
    EXPECT_EQ(
        refusal_of_source(path),
        path.string() + ": expected a file that `zstd` writes with --long=27 or less, got one whose window is larger");
  }
}

TEST(PreparedCorpus, RefusesWhatIsNoDocumentByLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& line, const std::string& got) {
    const fs::path path = folder.write("a.jsonl", json_line("fine") + "\n" + line + "\n" + json_line("fine"));
    const std::string message = refusal_of_source(path);
    expect_part(message, path.string() + ", line 3: expected an object with the text \"text\", got " + got);
  };
  refused("{\"n\": 1}", "none of that name");
  refused("{\"text\": 1}", "a number");
  refused("{\"text\": null}", "null");
  refused("[\"text\"]", "an array");
  refused("{\"text\": \"a\"} b", "broken JSON");
  refused("{\"text\": \"a", "broken JSON");
  refused("{\"text\": \"a\", \"n\": 01}", "broken JSON");
  refused("text", "broken JSON");
  refused("{\"n\": 123456789012345678901234567890}", "none of that name");
  EXPECT_EQ(documents_from(folder.write("b.jsonl", "{\"text\": \"a\", \"n\": 123456789012345678901234567890}\r\n")),
            std::vector<std::string>{"a"});
  EXPECT_EQ(documents_from(folder.write("c.jsonl",
                                        "\xef\xbb\xbf"
                                        "{\"body\": \"a\"}\n"),
                           {.field = "body", .held_out = 0}),
            std::vector<std::string>{"a"});
  expect_part(refusal_of_source(folder.write("d.jsonl", "\n\n")), "expected documents, got none");
  expect_part(refusal_of_source(folder.path() / "none"), "expected a file or folder, got none at");
}

TEST(PreparedCorpus, MendsOrLeavesOutBrokenUtf8) {
  const TemporaryFolder folder;
  const std::string line = "{\"text\": \"a\xff\xc3(\"}", half = "{\"text\": \"\\\\ud800 \\ud83d\\ude00 \\ud83d!\"}";
  const fs::path lines = folder.write("a.jsonl", json_line("fine") + line + "\n" + half + "\n");
  const fs::path text = folder.write("b.txt", "caf\xe9!");
  expect_part(refusal_of_source(lines), "a.jsonl, line 2: expected UTF-8, got byte 0xFF at offset 11");
  expect_part(refusal_of_source(folder.write("c.jsonl", half)), "c.jsonl, line 1: expected UTF-8, got half of a");
  expect_part(refusal_of_source(text), "b.txt: expected UTF-8, got byte 0xE9 at offset 3");
  const std::string mark = "\xef\xbf\xbd";
  const CorpusOptions replace{.held_out = 0, .invalid_utf8 = "replace"}, drop{.held_out = 0, .invalid_utf8 = "drop"};
  EXPECT_EQ(documents_from(lines, replace),
            (std::vector<std::string>{"fine", "a" + mark + mark + "(", "\\ud800 \xf0\x9f\x98\x80 " + mark + "!"}));
  EXPECT_EQ(documents_from(lines, drop), std::vector<std::string>{"fine"});
  EXPECT_EQ(documents_from(text, replace), std::vector<std::string>{"caf" + mark + "!"});
  CorpusRequest request = request_for(lines, folder.path() / "corpus");
  request.options = drop;
  EXPECT_EQ(prepare_corpus(request).index.counts.invalid_utf8_dropped, 2);
  // A character that a piece of the text would cut is no broken one.
  std::string longer = "\xff";
  for (int character = 0; character < 3000; ++character) longer += "ü";
  EXPECT_EQ(documents_from(folder.write("d.txt", longer), replace), std::vector<std::string>{mark + longer.substr(1)});
}

// A tokenizer of bytes with tokens around each document.
class FramedBytes final : public Tokenizer {
 public:
  explicit FramedBytes(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string_view kind() const override { return "framed"; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::vector<Token> encode(std::string_view text, std::string_view what) const override {
    return ByteTokenizer().encode(text, what);
  }
  std::string decode(std::span<const Token>) const override { return ""; }
  std::optional<Token> beginning() const override { return 256; }
  std::optional<Token> end_of_document() const override { return static_cast<Token>(vocabulary_ - 1); }
  std::string to_json() const override { return "{}"; }

 private:
  std::int64_t vocabulary_;
};

TEST(PreparedCorpus, PutsTokensOfTheTokenizerAroundDocuments) {
  const TemporaryFolder folder;
  const fs::path source = folder.write("a.jsonl", json_line("ab") + json_line("c"));
  for (const std::int64_t vocabulary : {300, 1 << 16, (1 << 16) + 1}) {
    CorpusRequest request = request_for(source, folder.path() / std::to_string(vocabulary));
    request.tokenizer = std::make_shared<FramedBytes>(vocabulary);
    request.options.held_out = 0;
    const ShardRecord shard = prepare_corpus(request).index.shards.front();
    const int bytes = vocabulary > (1 << 16) ? 4 : 2;
    std::string expected;
    for (const std::int64_t token : {std::int64_t{256}, std::int64_t{'a'}, std::int64_t{'b'}, vocabulary - 1,
                                     std::int64_t{256}, std::int64_t{'c'}, vocabulary - 1})
      for (int byte = 0; byte < bytes; ++byte) expected.push_back(static_cast<char>(token >> 8 * byte));
    const std::string written = read_file(request.folder / shard.file);
    EXPECT_EQ(written.substr(0, expected.size()), expected);
    EXPECT_EQ(std::ssize(written), shard.bytes(bytes));
    EXPECT_EQ(shard.sha256, sha256(written));
  }
}

// Whether the call that another process begins and `stop` ends early leaves what a whole call makes, in the end.
template <class Stop>
void expect_same_after(const Mixed& mixed, const std::string& out, const Stop& stop) {
  const CorpusRequest request = mixed.request(out, 2);
  const pid_t child = ::fork();
  if (child == 0) {
    stop.in_child();
    try {
      prepare_corpus(request);
    } catch (const Error&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  stop.in_parent(child);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  stop.expect_of(status);
  prepare_corpus(request);
  EXPECT_EQ(files_of(request.folder), files_of(mixed.folder.path() / "whole"));
}

struct KilledAfter {
  std::chrono::microseconds time;
  void in_child() const {}
  void in_parent(pid_t child) const {
    std::this_thread::sleep_for(time);
    ::kill(child, SIGKILL);
  }
  void expect_of(int) const {}  // it may have been done
};

struct OutOfSpaceAt {
  rlim_t bytes;
  void in_child() const {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  void in_parent(pid_t) const {}
  void expect_of(int status) const { EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << bytes; }
};

TEST(PreparedCorpus, GoesOnAfterItWasKilledOrRanOutOfSpace) {
  const Mixed mixed;
  const auto start = std::chrono::steady_clock::now();
  prepare_corpus(mixed.request("whole", 2));
  const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  constexpr int moments = 6;
  for (int moment = 0; moment < moments; ++moment)
    expect_same_after(mixed, "killed-" + std::to_string(moment), KilledAfter{taken * (2 * moment + 1) / (2 * moments)});
  for (const rlim_t bytes : {100, 1000, 30'000, 150'000})
    expect_same_after(mixed, "full-" + std::to_string(bytes), OutOfSpaceAt{bytes});
}

TEST(PreparedCorpus, GoesOnOnlyWithTheSameCorpus) {
  const Mixed mixed;
  CorpusRequest request = mixed.request("corpus");
  int blocks = 0;
  request.go_on = [&](const PreparationProgress&) { return ++blocks < 3; };
  expect_part(refusal_of([&] { prepare_corpus(request); }), "the same command continues");
  expect_part(refusal_of([&] { PreparedCorpus corpus(request.folder); }), "got one that is not finished");
  request.go_on = {};
  CorpusRequest other = request;
  other.options.held_out = 0.2;
  expect_part(refusal_of([&] { prepare_corpus(other); }), "held_out of the corpus that was begun there");
  other = request;
  other.tokenizer = std::make_shared<FramedBytes>(300);
  expect_part(refusal_of([&] { prepare_corpus(other); }), "tokenizer.kind of the corpus that was begun there");
  {
    const FolderLock lock(request.folder, corpus_kind);
    expect_part(refusal_of([&] { prepare_corpus(request); }), "one that another process is using");
  }
  mixed.folder.write("in/a.jsonl", json_lines(400, 7));
  const std::string of_source = refusal_of([&] { prepare_corpus(request); });
  expect_part(of_source, "source of the corpus that was begun there");
  expect_part(of_source, "bytes, changed since; remove " + request.folder.string() + " to begin anew");
  fs::remove_all(request.folder);
  EXPECT_FALSE(prepare_corpus(request).was_there);
  EXPECT_TRUE(prepare_corpus(request).was_there);
  const fs::path source = mixed.folder.path() / "in/a.jsonl";
  std::string text = read_file(source);
  text[text.find_last_of("abcdefgh")] = 'x';
  write_file(source, text);
  expect_part(refusal_of([&] { prepare_corpus(request); }), "got a corpus of other contents of");
  // Where no shard is written yet, another preparation begins anew.
  CorpusRequest unsharded = request;
  unsharded.folder = mixed.folder.path() / "unsharded";
  unsharded.options.shard_tokens = 1 << 30;
  blocks = 0;
  unsharded.go_on = [&](const PreparationProgress&) { return ++blocks < 2; };
  expect_part(refusal_of([&] { prepare_corpus(unsharded); }), "the same command continues");
  unsharded.go_on = {};
  unsharded.options.held_out = 0.3;
  EXPECT_FALSE(prepare_corpus(unsharded).was_there);
  other.tokenizer = request.tokenizer;
  other.options.field = "n";
  expect_part(refusal_of([&] { prepare_corpus(other); }), "got a corpus prepared with other options");
  other = request;
  other.folder = mixed.folder.path() / "in";
  expect_part(refusal_of([&] { prepare_corpus(other); }), "expected a new or empty folder");
}

TEST(PreparedCorpus, NamesTheFileThatIsNotAsItWasWritten) {
  const Mixed mixed;
  const CorpusRequest request = mixed.request("corpus");
  prepare_corpus(request);
  const auto opened = [&] {
    const PreparedCorpus corpus(request.folder);
    verify_corpus(corpus);
  };
  opened();
  const auto changed = [&](const std::string& name, const auto& change) {
    const fs::path path = request.folder / name;
    const std::string before = read_file(path);
    std::string after = before;
    change(after);
    write_file(path, after);
    const std::string message = refusal_of(opened);
    write_file(path, before);
    expect_part(message, name);
    return message;
  };
  const auto replace = [](const std::string& from, const std::string& to) {
    return [=](std::string& text) { text.replace(text.find(from), from.size(), to); };
  };
  expect_part(changed("shard-00001.bin", [](std::string& bytes) { bytes.resize(bytes.size() - 8); }), "bytes, got");
  expect_part(changed("shard-00002.bin", [](std::string& bytes) { bytes[17] ^= 1; }), "SHA-256");
  expect_part(changed("shard-00000.bin", [](std::string& bytes) { bytes.back() ^= 0x7f; }), "end of a document");
  expect_part(changed("tokenizer.json", [](std::string& text) { text += " "; }), "SHA-256");
  expect_part(changed("index.json", replace("\"version\": 1", "\"version\": 2")), "expected version 1, got version 2");
  expect_part(changed("index.json", replace("\"shards\"", "\"sherds\"")), "shards");
  expect_part(changed("index.json", replace("shard-00001.bin", "../../passwords")), "expected shard-00001.bin");
  expect_part(changed("index.json", [](std::string& text) { text.resize(text.size() / 2); }), "got something else");
  expect_part(changed("index.json", replace("\"tokens\": ", "\"tokens\": -")), "a count");
  fs::remove(request.folder / "shard-00001.bin");
  expect_part(refusal_of(opened), "shard-00001.bin: expected a file that can be read");
}

// Memory that is mapped would end the process.
TEST(PreparedCorpus, NamesTheShardThatBecameShorterWhileItIsRead) {
  const Mixed mixed;
  const CorpusRequest request = mixed.request("corpus");
  prepare_corpus(request);
  const PreparedCorpus corpus(request.folder);
  const CorpusPart& part = corpus.part(CorpusSide::training);
  const fs::path shard = request.folder / corpus.index().shards.at(1).file;
  const std::uintmax_t bytes = fs::file_size(shard);
  const std::int64_t before = corpus.index().shards[0].sides[0].tokens;
  std::vector<std::int64_t> tokens(9000);
  part.read(before, tokens);
  fs::resize_file(shard, 16'384);
  const std::string expected =
      shard.string() + ": expected " + std::to_string(bytes) + " bytes, as when it was opened, got 16384";
  EXPECT_EQ(refusal_of([&] { part.read(before, tokens); }), expected);
  EXPECT_EQ(refusal_of([&] { part.ends_within(before, before + 100); }), expected);
  EXPECT_EQ(refusal_of([&] { document_lengths(part); }), expected);
  tokens.resize(8192);
  part.read(before, tokens);  // what is there is read
}

TEST(PreparedCorpus, FindsTheEndsOfDocuments) {
  const Mixed mixed;
  const CorpusRequest request = mixed.request("corpus");
  prepare_corpus(request);
  const PreparedCorpus corpus(request.folder);
  const CorpusPart& part = corpus.part(CorpusSide::training);
  std::vector<std::int64_t> all;
  for (std::int64_t document = 0; document < part.documents(); ++document) all.push_back(part.document_end(document));
  EXPECT_EQ(all.back(), part.tokens());
  EXPECT_EQ(part.ends_within(0, part.tokens()), all);
  std::vector<std::int64_t> together(all.size() - 3);
  part.read_document_ends(3, together);
  EXPECT_EQ(together, std::vector<std::int64_t>(all.begin() + 3, all.end()));
  for (std::int64_t first = 0; first + 700 < part.tokens(); first += 701) {
    std::vector<std::int64_t> expected;
    for (const std::int64_t end : all)
      if (end > first && end <= first + 700) expected.push_back(end);
    EXPECT_EQ(part.ends_within(first, first + 700), expected);
  }
}

}  // namespace
}  // namespace cogwheel::text
