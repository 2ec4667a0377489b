#include "readers.h"

#include <unistd.h>
#include <zstd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/random_access_file.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/interchange/language_tokenizer.h"
#include "cogwheel/interchange/transformers_config.h"
#include "cogwheel/runs/safetensors_header.h"
#include "cogwheel/tasks/encoders/sentence_table.h"
#include "cogwheel/tasks/handwriting/stroke_files.h"
#include "cogwheel/tasks/images/data/image_files.h"
#include "cogwheel/tasks/images/data/image_source.h"
#include "cogwheel/tasks/images/vision_transformer_options.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/byte_pairs/byte_alphabet.h"
#include "cogwheel/text/byte_pairs/published_byte_pairs.h"
#include "cogwheel/text/byte_tokenizer.h"
#include "cogwheel/text/open_tokenizer.h"
#include "cogwheel/text/prepared/corpus_check.h"
#include "cogwheel/text/prepared/document_blocks.h"
#include "cogwheel/text/prepared/json_line.h"
#include "cogwheel/text/prepared/prepare_corpus.h"
#include "cogwheel/text/sentencepiece/sentencepiece_model_check.h"
#include "cogwheel/text/text_lines.h"
#include "cogwheel/text/tokenizer.h"
#include "cogwheel/text/word_piece.h"
#include "support/gzip.h"
#include "tasks/handwriting/stroke_examples.h"
#include "tasks/images/image_writers.h"

namespace cogwheel {

// The list of all tasks says it, which is not part of this program; the readers of configurations set another.
runs::ModelOptions runs::model_of_task(std::string_view /*task*/, std::string_view /*model*/) {
  return tasks::images::VisionTransformerOptions{};
}

using namespace tasks::encoders;
using namespace tasks::handwriting;
using namespace tasks::images;
using namespace text;

namespace {

// Readers of paths get a file of this process, with the ending that they look at.
class OwnFile {
 public:
  explicit OwnFile(const std::string& ending)
      : path_(std::filesystem::temp_directory_path() / ("cogwheel-fuzz-" + std::to_string(getpid()) + ending)) {}
  ~OwnFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& holding(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return path_;
  }

 private:
  std::filesystem::path path_;
};

Image small_image() {
  Image image{6, 5, {}};
  for (int i = 0; i < 6 * 5 * 3; ++i) image.pixels.push_back(static_cast<std::uint8_t>(9 * i));
  return image;
}

void decode(const std::string& bytes) {
  const Image image = decode_image(bytes, "a");
  if (std::ssize(image.pixels) != 3 * image.height * image.width) std::abort();
}

std::vector<std::string> png_seeds() {
  const Image image = small_image();
  return {encode_png(image), written_png(6, 5, {.interlaced = true, .comment = "comment"}, image.pixels),
          written_png(4, 2, {.color = PNG_COLOR_TYPE_PALETTE, .palette = {{1, 2, 3}, {4, 5, 6}}, .palette_alpha = {9}},
                      {0, 1, 1, 0, 0, 0, 1, 0}),
          written_png(1, 3, {.color = PNG_COLOR_TYPE_RGBA, .bits = 16}, std::vector<std::uint8_t>(24, 77))};
}

std::vector<std::string> jpeg_seeds() {
  const Image image = small_image();
  return {written_jpeg(6, 5, {}, image.pixels), written_jpeg(6, 5, {.progressive = true}, image.pixels)};
}

std::string cifar_records(int count) {
  std::string records;
  for (int record = 0; record < count; ++record) records += std::string(1, char(record % 10)) + std::string(3072, 'a');
  return records;
}

void read_cifar(const std::string& bytes) {
  static const OwnFile file(".bin");
  const auto images = cifar10_images({file.holding(bytes)});
  for (const ImagePart part : {ImagePart::training, ImagePart::held_out})
    for (std::int64_t index = 0; index < images->images(part); ++index)
      if (images->image(part, index).pixels.size() != 3072) std::abort();
}

template <const char* ending>
void read_table(const std::string& bytes) {
  static const OwnFile file(ending);
  for (const SentenceRow& row : read_sentence_table(file.holding(bytes)).rows)
    if (row.label.empty()) std::abort();
}
constexpr char csv[] = ".csv", tsv[] = ".tsv";

template <const char* ending>
void read_lines(const std::string& bytes) {
  static const OwnFile file(ending);
  read_text_lines(file.holding(bytes));
}
constexpr char txt[] = ".txt", gz[] = ".gz";

std::string gzipped_text() {
  const OwnFile file(".seed.gz");
  return gzipped("Ein Hund läuft.\nZwei Katzen schlafen.\n", file.holding(""));
}

// A vocabulary, and the text of its pieces by itself.
void read_vocabulary(const std::string& bytes) {
  static const OwnFile file(".txt");
  const TextLines lines = read_text_lines(file.holding(bytes));
  const WordPieceTokenizer tokenizer(lines.lines, true);
  std::string text;
  for (const std::string& line : lines.lines) text += line + " ";
  tokenizer.encode(text);
}

// What a run keeps.
void read_tokenizer(const std::string& bytes) {
  static const OwnFile file(".json");
  load_tokenizer(file.holding(bytes))->encode("a b\xc3\xbc");
}

std::vector<std::string> tokenizer_seeds() {
  std::vector<std::string> seeds;
  const OwnFile file(".seed.json");
  for (const char* kind : {"character", "byte", "bpe"}) {
    const auto& path = file.holding("");
    save_tokenizer(*make_tokenizer(kind, "ab ab \xc3\xbc"), path);
    std::ifstream written(path);
    seeds.emplace_back(std::istreambuf_iterator<char>(written), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// Of Hugging Face's kind, with every byte, and the text that it makes.
void read_published(const std::string& bytes) {
  static const OwnFile file(".json");
  const auto tokenizer = open_tokenizer(file.holding(bytes));
  const std::string text = "ab ab't 12\n\n\xff\xc3\xbc";
  const std::vector<Token> tokens = tokenizer->encode(tokenizer->kind() == "character" ? "ab" : text);
  if (tokenizer->kind() == "bpe" && tokenizer->decode(tokens) != text) std::abort();
  tokenizer->decode(tokens);
  std::string in_parts;
  for (std::size_t place = 0; place < tokens.size(); ++place)
    in_parts += tokenizer->decode_next(std::span(tokens).first(place), tokens[place]);
  if (in_parts != tokenizer->decode(tokens)) std::abort();
}

// vocab.json and merges.txt, one after the other with a line of # between them.
void read_vocab_and_merges(const std::string& bytes) {
  static const OwnFile vocab(".vocab.json"), merges(".merges.txt");
  const std::size_t end = std::min(bytes.find("\n#\n"), bytes.size());
  BytePairTokenizer(vocab_and_merges(vocab.holding(bytes.substr(0, end)),
                                     merges.holding(bytes.substr(std::min(end + 3, bytes.size())))))
      .encode("ab \xff");
}

std::string every_byte() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab += nlohmann::json(printable_bytes(std::string(1, static_cast<char>(byte)))).dump() + ":" +
             std::to_string(byte) + ",";
  return vocab;
}

std::string byte_pieces() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab += "\"<0x" + hexadecimal(static_cast<std::uint32_t>(byte), 2) + ">\":" + std::to_string(byte) + ",";
  return vocab;
}

const std::string piece_decoder =
    R"("decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
    R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}})";

std::vector<std::string> published_seeds() {
  const std::string model = R"("model":{"type":"BPE","ignore_merges":true,"vocab":{)" + every_byte() +
                            R"("ab":256,"<|b|>":257},"merges":["a b"]},)";
  const std::string special = R"("added_tokens":[{"id":257,"content":"<|b|>","special":true}],)";
  return {
      "{" + model + special + R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}})",
      "{" + model + special +
          R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","pattern":{"Regex":)"
          R"("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},)"
          R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},)"
          R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|b|>"}},{"Sequence":{"id":"A"}}]}})",
      "{" + model + R"("added_tokens":[{"id":257,"content":"<|b|>","special":false}],"normalizer":{"type":"NFC"},)" +
          R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},)" +
          R"({"type":"ByteLevel","add_prefix_space":false}]}})",
      R"({"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"vocab":{"<unk>":0,"▁":1,"a":2,"▁a":3,"<s>":4},)"
      R"("merges":[["▁","a"]]},"added_tokens":[{"id":4,"content":"<s>","special":true}],)"
      R"("pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false},)" +
          piece_decoder,
      R"({"model":{"type":"BPE","byte_fallback":true,"vocab":{"▁":256,)" + byte_pieces() +
          R"("ü":257},"merges":[]},"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
          R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]},)" +
          piece_decoder,
      R"({"model":{"type":"WordLevel","unk_token":"none","vocab":{" ":0,"a":1,"b":2,"t":3,"'":4,"1":5,"2":6,"\n":7,"ü":8}},)"
      R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"[\\s\\S]"}},"decoder":{"type":"Fuse"}})"};
}

// Beside a tokenizer of bytes, a byte after which settings come says which of the files they are.
void read_settings(const std::string& bytes) {
  static const ScratchFolder folder;
  static const std::string seed = published_seeds()[0];
  std::ofstream(folder / "tokenizer.json", std::ios::binary | std::ios::trunc) << seed;
  static const char* const names[] = {"generation_config.json", "tokenizer_config.json", "config.json"};
  for (const char* const name : names) std::filesystem::remove(folder / name);
  if (bytes.empty()) return;
  std::ofstream(folder / names[static_cast<unsigned char>(bytes[0]) % 3], std::ios::binary | std::ios::trunc)
      << bytes.substr(1);
  interchange::read_language_tokenizer(folder.path(), 300);
}

// The message of a model: a piece that is unknown, one with a score, a normalizer with nothing.
const std::string piece_message =
    "\x0a\x07\x0a\x03<u>\x18\x02\x0a\x08\x0a\x01"
    "a\x15" +
    std::string(4, '\0') + "\x1a\x00";

// A line of a corpus, by each policy for what is not UTF-8.
void read_json_line(const std::string& bytes) {
  std::string line = bytes.substr(0, bytes.find('\n'));
  const std::size_t size = line.size();
  line.append(JsonLineReader::padding, '"');
  JsonLineReader reader;
  for (const InvalidUtf8 policy : {InvalidUtf8::replace, InvalidUtf8::drop, InvalidUtf8::refuse}) {
    const auto field = reader.field(std::string_view(line).substr(0, size), "text", policy, "a");
    if (find_invalid_utf8(field.text) != std::string::npos) std::abort();
  }
}

// The documents of a source, which its name says how to read.
template <const char* ending>
void read_source(const std::string& bytes) {
  static const OwnFile file(ending);
  std::vector<Source> sources{described_source(file.holding(bytes), "a")};
  sources.front().bytes = std::ssize(bytes);
  DocumentBlocks blocks(sources, 0, 0);
  for (auto block = blocks.next(); block; block = blocks.next())
    for (const DocumentBlock::Document& document : block->documents)
      if (document.offset + document.bytes + JsonLineReader::padding > block->bytes.size()) std::abort();
}
constexpr char jsonl[] = ".jsonl", text_gz[] = ".txt.gz", lines_zst[] = ".jsonl.zst";

std::string zstandard(const std::string& text) {
  std::string compressed(ZSTD_compressBound(text.size()), '\0');
  compressed.resize(ZSTD_compress(compressed.data(), compressed.size(), text.data(), text.size(), 3));
  return compressed;
}

const std::string lines_of_json =
    "{\"text\": \"a \\u00fc\\ud83d\\ude00\", \"n\": [1, 2.5e3, true, null]}\n\n{\"n\": {}, \"text\": \"b\"}\n";

// A corpus of a few documents, one file of which is replaced.
class SmallCorpus {
 public:
  SmallCorpus() {
    std::ofstream(folder_ / "a.jsonl") << lines_of_json << "{\"text\": \"longer than the others\"}\n";
    prepare_corpus({.paths = {folder_ / "a.jsonl"},
                    .tokenizer = std::make_shared<ByteTokenizer>(),
                    .folder = path(),
                    .options = {.held_out = 0.3}});
  }
  std::filesystem::path path() const { return folder_ / "corpus"; }
  std::string holding(const std::string& name) const {
    std::ifstream file(path() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // Reads all of it, with those bytes in the place of a file.
  void read(const std::string& name, const std::string& bytes) const {
    std::ofstream(path() / name, std::ios::binary | std::ios::trunc) << bytes;
    const PreparedCorpus corpus(path());
    for (const CorpusSide side : corpus_sides) {
      const CorpusPart& part = corpus.part(side);
      document_lengths(part);
      sample_documents(corpus, side, 3, 10);
      part.ends_within(0, part.tokens());
    }
    verify_corpus(corpus);
  }

 private:
  ScratchFolder folder_;
};

void read_corpus_index(const std::string& bytes) {
  static const SmallCorpus corpus;
  corpus.read("index.json", bytes);
}

// Whatever its size, it is made that which the index says, without which it would be refused at once.
void read_shard(const std::string& bytes) {
  static const SmallCorpus corpus;
  static const std::size_t size = corpus.holding("shard-00000.bin").size();
  std::string sized = bytes;
  sized.resize(size);
  corpus.read("shard-00000.bin", sized);
}

// Whatever a header says that is read, its tensors fill exactly what follows it.
void read_safetensors(const std::string& bytes) {
  static const OwnFile file(".safetensors");
  const runs::SafeTensorsHeader header = runs::read_safetensors_header(RandomAccessFile(file.holding(bytes)));
  std::uint64_t sum = 0;
  for (const runs::SafeTensorsHeader::Entry& entry : header.entries) {
    auto size = static_cast<std::uint64_t>(runs::bytes_of_type(entry.type));
    for (const std::int64_t count : entry.shape) size *= static_cast<std::uint64_t>(count);
    if (entry.end - entry.begin != size || header.first + entry.end > bytes.size()) std::abort();
    sum += size;
  }
  if (header.first + sum != bytes.size()) std::abort();
}

std::string with_length(const std::string& header) {
  std::string bytes(sizeof(std::uint64_t), '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header;
}

// The length of the header, in all files but those of every eighth size.
void repair_length(std::string& bytes) {
  const std::size_t end = bytes.rfind('}');
  if (bytes.size() % 8 == 0 || end == std::string::npos || end < sizeof(std::uint64_t)) return;
  const std::uint64_t length = end + 1 - sizeof(std::uint64_t);
  std::memcpy(bytes.data(), &length, sizeof length);
}

const std::vector<std::string> safetensors_seeds{
    with_length(
        R"({"__metadata__":{"format":"a","sha256":"0"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
        R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},"c":{"dtype":"I64","shape":[0,7],)"
        R"("data_offsets":[26,26]}} )") +
        std::string(26, 'n'),
    with_length("{}"), with_length(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})") + "12345"};

const std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n##ü\n中\n";

// Of whatever architecture it names, beside a vocabulary.
void read_foreign_config(const std::string& bytes) {
  static const ScratchFolder folder;
  const std::filesystem::path path = folder / interchange::config_file;
  std::ofstream(folder / "vocab.txt") << vocabulary;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  interchange::ForeignConfig config(path);
  interchange::find_architecture(config.architecture(), "a").read(config, folder.path());
  config.finish();
}

const std::string transformers_keys =
    R"("hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":16,"hidden_act":"gelu",)"
    R"("hidden_dropout_prob":0.1,"attention_probs_dropout_prob":0.1,"layer_norm_eps":1e-12,)"
    R"("id2label":{"0":"a","1":"b"},"label2id":null,"_name_or_path":"a"})";
const std::string llama_keys =
    R"("hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":4,)"
    R"("intermediate_size":16,"hidden_act":"silu","rms_norm_eps":1e-6,"max_position_embeddings":8,)"
    R"("tie_word_embeddings":false,"bos_token_id":0,"eos_token_id":[1,2]})";
const std::vector<std::string> foreign_config_seeds{
    R"({"architectures":["BertForMaskedLM"],"model_type":"bert","vocab_size":9,"max_position_embeddings":9,)"
    R"("type_vocab_size":2,"position_embedding_type":"absolute","pad_token_id":0,)" +
        transformers_keys,
    R"({"architectures":["BertForSequenceClassification"],"model_type":"bert","vocab_size":9,"num_labels":2,)"
    R"("problem_type":"single_label_classification","classifier_dropout":null,)" +
        transformers_keys,
    R"({"architectures":["ViTForImageClassification"],"model_type":"vit","image_size":8,"patch_size":4,)"
    R"("num_channels":3,"qkv_bias":true,)" +
        transformers_keys,
    R"({"architectures":["UViT"],"img_size":8,"patch_size":4,"in_chans":3,"embed_dim":8,"depth":4,"num_heads":2,)"
    R"("mlp_ratio":4,"qkv_bias":false,"mlp_time_embed":false,"num_classes":3,"id2label":{"0":"a","1":"b"}})",
    R"({"architectures":["UViT"],"img_size":8,"clip_dim":10,"num_clip_token":2})",
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":9,"attention_bias":true,"mlp_bias":true,)"
    R"("rope_parameters":{"rope_type":"llama3","rope_theta":1e4,"factor":8.0,"low_freq_factor":1.0,)"
    R"("high_freq_factor":4.0,"original_max_position_embeddings":8},)" +
        llama_keys,
    R"({"architectures":["MistralForCausalLM"],"model_type":"mistral","vocab_size":9,"sliding_window":4,)" + llama_keys,
    R"({"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","vocab_size":9,"use_sliding_window":true,)"
    R"("sliding_window":4,"max_window_layers":0,"layer_types":["sliding_attention","sliding_attention"],)" +
        llama_keys,
    R"({"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","vocab_size":9,"use_sliding_window":false,)" +
        llama_keys,
    R"({"architectures":["DiffLlamaForCausalLM"],"model_type":"diffllama","lambda_std_dev":0.1,"vocab_size":9,)"
    R"("rope_theta":1e4,"rope_scaling":{"type":"linear","factor":2},)" +
        llama_keys,
    R"({"architectures":["GPT2LMHeadModel"],"model_type":"gpt2","vocab_size":9,"n_positions":8,"n_embd":8,"n_layer":2,)"
    R"("n_head":2,"n_inner":null,"activation_function":"gelu_new","layer_norm_epsilon":1e-5,"resid_pdrop":0.1,)"
    R"("embd_pdrop":0.1,"attn_pdrop":0.0,"tie_word_embeddings":true,"eos_token_id":1})"};

const std::string comma_table = "sentence,label\n\"a, b\"\"c\"\"\",1\nd,0\n\"e\nf\",1\n";
const std::string tab_table = "sentence\tlabel\na b\t1\nc\t0\n";

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all{
      {"png", decode, png_seeds(), repair_checksums},
      {"jpeg", decode, jpeg_seeds()},
      {"cifar10", read_cifar, {cifar_records(1), cifar_records(3)}},
      {"csv", read_table<csv>, {comma_table}},
      {"tsv", read_table<tsv>, {tab_table}},
      {"text",
       read_lines<txt>,
       {tab_table,
        "\xef\xbb\xbf"
        "a\r\n\r\nb"}},
      {"gzip", read_lines<gz>, {gzipped_text()}},
      {"vocabulary", read_vocabulary, {vocabulary}},
      {"tokenizer", read_tokenizer, tokenizer_seeds()},
      {"published_tokenizer", read_published, published_seeds()},
      {"tokenizer_settings",
       read_settings,
       {R"(0{"bos_token_id": 257, "eos_token_id": [257, 3]})",
        R"(1{"eos_token": {"content": "<|b|>"}, "add_bos_token": false, "chat_template": "{{ a }}"})"}},
      {"vocab_and_merges", read_vocab_and_merges, {"{" + every_byte() + "\"ab\":256,\"<s>\":257}\n#\na b\n"}},
      {"sentencepiece_model", [](const std::string& bytes) { sentencepiece_model_problem(bytes); }, {piece_message}},
      {"json_line",
       read_json_line,
       {lines_of_json, "{\"text\": \"\xff \\ud800\", \"n\": 123456789012345678901234567890}"}},
      {"json_lines", read_source<jsonl>, {lines_of_json}},
      {"corpus_gzip", read_source<text_gz>, {gzipped_text()}},
      {"corpus_zstd", read_source<lines_zst>, {zstandard(lines_of_json)}},
      {"corpus_index", read_corpus_index, {SmallCorpus().holding("index.json")}},
      {"corpus_shard", read_shard, {SmallCorpus().holding("shard-00000.bin")}},
      {"foreign_config", read_foreign_config, foreign_config_seeds},
      {"safetensors_header", read_safetensors, safetensors_seeds, repair_length},
      {"line_strokes", [](const std::string& bytes) { parse_line_strokes(bytes, "a"); }, {line_xml}},
      {"transcript", [](const std::string& bytes) { parse_transcript(bytes, "a"); }, {transcript}},
      {"original_transcript", [](const std::string& bytes) { parse_original_transcript(bytes, "a"); }, {original}},
      {"quick_draw", [](const std::string& bytes) { parse_quick_draw(bytes, "a", true); }, {drawing, raw_drawing}},
  };
  return all;
}

}  // namespace cogwheel
