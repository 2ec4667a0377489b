// A key of a configuration and where its value is held.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cogwheel::runs {

// A value of [task], whose options only the task knows.
using ConfigValue = std::variant<bool, std::int64_t, double, std::string>;

// A key without a value of its own: it names a set of others, is read before them, and is not written.
struct NamesOtherKeys {
  // Sets them. Throws UsageError that names `what` for a name that it does not know.
  std::function<void(std::string_view name, std::string_view what)> set;
};

using ConfigSlot = std::variant<std::string*, std::vector<std::string>*, std::vector<double>*, std::int64_t*,
                                std::uint64_t*, double*, bool*, ConfigValue*, NamesOtherKeys>;

// Who reads a key (TaskEntry says what a task is); to others a value of it would mean nothing. Tasks on text read a
// text or corpora, and a text has byte pairs that are learned where data.tokenizer is "bpe".
enum class ReadBy { every_task, tasks_on_text, corpora, several_corpora, byte_pairs };

struct ConfigField {
  std::string key;  // "section.name", or "name" at the top
  ConfigSlot slot;
  ReadBy read_by = ReadBy::every_task;
};

}  // namespace cogwheel::runs
