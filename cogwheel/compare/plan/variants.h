// Rows of a comparison that differ in more than their mechanism, as a user writes them:
// "outer: model.mechanism=cog model.first_softmax_layers=1", or a table [variants.outer] of a file.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::compare {

struct Variant {
  std::string name;
  std::vector<std::string> set;  // "key=value" of a configuration, at least one
};

// "model.window" of "model.window=8".
std::string key_of(const std::string& assignment);

// A value ends where the next key begins, so that it may hold spaces. Throws UsageError that names `option`.
Variant parse_variant(std::string_view text, std::string_view option);

// Whether a text is that of a variant, and not the name of a mechanism.
bool is_variant(std::string_view text);

// The tables below [variants] of a text in their order; others are not looked at. Throws UsageError that names `what`.
std::vector<Variant> parse_variants(std::string_view toml, const std::string& what);

// Those of a file, which may be the only ones in the file. Throws UsageError that names the
// file, Error where it cannot be read.
std::vector<Variant> read_variants(const std::filesystem::path& file);

// The text that parse_variant reads.
std::string variant_text(std::string_view name, const std::vector<std::string>& set);

}  // namespace cogwheel::compare
