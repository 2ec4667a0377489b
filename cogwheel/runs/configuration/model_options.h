// The options of a model of any topology, as one value: which topology it is, only those ask who make or use its
// models.
//
// The options of a topology are a copyable struct with ==, mechanism, context, layers, heads, width, dropout, and a
// vocabulary if it has one. Its header declares, for its struct,
//
//   void check(const Options&);                     throws UsageError that names the first invalid option
//   std::vector<ConfigField> config_fields(Options&);  the keys of [model], in the order in which they are written
//   std::int64_t balanced_width(const Options&);    the width that balances parameters which a mechanism adds or saves
//   void set_balanced_width(Options&, std::int64_t);
//   std::int64_t output_heads(const Options&);      the number of heads in attention maps
//   MechanismText mechanism_text(const Options&, std::string_view what);  UsageError where it has no such mechanism
//   const ModelEntry& model_entry(const Options&);  what makes and runs its models (runs/model_entry.h)
//
// and void stand_in_for_data(Options&), if data decide more of them than a vocabulary. The width that is balanced is
// the whole model's unless the struct has feed_forward; where layers are no heads, it says so: layers_have_heads =
// false; where the context follows from other options, as of images, it is tokens().
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/nn/options/mechanism_text.h"
#include "cogwheel/runs/configuration/config_field.h"

namespace cogwheel::runs {

struct ModelEntry;

// Maxima far beyond any memory, so that no loop or product over them overflows.
inline constexpr Range<std::int64_t> context_range{1, 1 << 20};
inline constexpr Range<double> dropout_range{.min = 0, .max = 1, .max_excluded = true};

// What every topology has, to be read or set without knowing which it is.
template <bool writable>
struct BasicCommonOptions {
  template <class Value>
  using Member = std::conditional_t<writable, Value, const Value>;

  Member<std::string>& mechanism;
  Member<std::int64_t>* vocabulary;  // null where the topology has none
  Member<std::int64_t>& context;     // the most tokens of a sequence
  Member<std::int64_t>&layers, &heads, &width;
  Member<double>& dropout;

  std::int64_t vocabulary_or_none() const { return vocabulary == nullptr ? 0 : *vocabulary; }
};
using CommonOptions = BasicCommonOptions<true>;
using ConstCommonOptions = BasicCommonOptions<false>;

// Whether a struct is the options of a topology.
template <class Options>
concept TopologyOptions = requires(const Options& options) {
  model_entry(options);
};

class ModelOptions {
 public:
  template <TopologyOptions Options>
  ModelOptions(Options options) : held_(std::make_unique<Of<Options>>(std::move(options))) {}
  ModelOptions(const ModelOptions& other) : held_(other.held_->copy()) {}
  ModelOptions(ModelOptions&&) noexcept = default;
  ModelOptions& operator=(ModelOptions other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }
  bool operator==(const ModelOptions& other) const { return held_->equals(*other.held_); }
  bool same_topology(const ModelOptions& other) const { return typeid(*held_) == typeid(*other.held_); }

  // Null where they are those of another topology.
  template <class Options>
  const Options* get_if() const {
    const auto* held = dynamic_cast<const Of<Options>*>(held_.get());
    return held == nullptr ? nullptr : &held->options;
  }
  template <class Options>
  Options* get_if() {
    return const_cast<Options*>(std::as_const(*this).get_if<Options>());
  }
  // Throws std::bad_cast where they are those of another topology.
  template <class Options>
  const Options& as() const {
    return dynamic_cast<const Of<Options>&>(*held_).options;
  }
  template <class Options>
  Options& as() {
    return const_cast<Options&>(std::as_const(*this).as<Options>());
  }

  const ModelEntry& entry() const { return held_->entry(); }

 private:
  friend CommonOptions common(ModelOptions& options);
  friend ConstCommonOptions common(const ModelOptions& options);
  friend void check(const ModelOptions& options);
  friend std::vector<ConfigField> config_fields(ModelOptions& options);
  friend void stand_in_for_data(ModelOptions& options);
  friend void set_context_that_follows(ModelOptions& options);
  friend std::int64_t balanced_width(const ModelOptions& options);
  friend void set_balanced_width(ModelOptions& options, std::int64_t width);
  friend bool balances_feed_forward(const ModelOptions& options);
  friend bool layers_have_heads(const ModelOptions& options);
  friend std::int64_t output_heads(const ModelOptions& options);
  friend nn::MechanismText mechanism_text(const ModelOptions& options, std::string_view what);

  struct Held {
    virtual ~Held() = default;
    virtual std::unique_ptr<Held> copy() const = 0;
    virtual bool equals(const Held& other) const = 0;
    virtual CommonOptions shared() = 0;
    virtual void expect_valid() const = 0;
    virtual std::vector<ConfigField> fields() = 0;
    virtual void stand_in() = 0;
    virtual void set_context() = 0;
    virtual std::int64_t balanced() const = 0;
    virtual void balance(std::int64_t width) = 0;
    virtual bool feeds_forward() const = 0;
    virtual bool of_heads() const = 0;
    virtual std::int64_t heads() const = 0;
    virtual nn::MechanismText text(std::string_view what) const = 0;
    virtual const ModelEntry& entry() const = 0;
  };

  // Calls what the topology declares.
  template <class Options>
  struct Of;

  std::unique_ptr<Held> held_;
};

CommonOptions common(ModelOptions& options);
ConstCommonOptions common(const ModelOptions& options);

// Throws UsageError that names the first invalid option.
void check(const ModelOptions& options);

std::vector<ConfigField> config_fields(ModelOptions& options);

// Gives options that only data decide, such as the vocabulary, the least value that is valid.
void stand_in_for_data(ModelOptions& options);

// Sets the context where it follows from other options. They were checked.
void set_context_that_follows(ModelOptions& options);

// The width that balances parameters which a mechanism adds or saves (compare/plan/matching.h).
std::int64_t balanced_width(const ModelOptions& options);
void set_balanced_width(ModelOptions& options, std::int64_t width);

// Whether that width is one of feed-forward networks; else it is that of the whole model.
bool balances_feed_forward(const ModelOptions& options);

// Whether layers consist of heads, not of cells whose states one alignment or window connects.
bool layers_have_heads(const ModelOptions& options);

// The number of heads in attention maps.
std::int64_t output_heads(const ModelOptions& options);

// Throws UsageError that names `what` where the topology has no such mechanism.
nn::MechanismText mechanism_text(const ModelOptions& options, std::string_view what);

template <class Options>
struct ModelOptions::Of final : Held {
  explicit Of(Options given) : options(std::move(given)) {}
  std::unique_ptr<Held> copy() const override { return std::make_unique<Of>(options); }
  bool equals(const Held& other) const override {
    const auto* same = dynamic_cast<const Of*>(&other);
    return same != nullptr && same->options == options;
  }
  CommonOptions shared() override {
    std::int64_t* vocabulary = nullptr;
    if constexpr (requires { options.vocabulary; }) vocabulary = &options.vocabulary;
    return {options.mechanism, vocabulary,    options.context, options.layers,
            options.heads,     options.width, options.dropout};
  }
  void expect_valid() const override { check(options); }
  std::vector<ConfigField> fields() override { return config_fields(options); }
  void stand_in() override {
    if constexpr (requires { stand_in_for_data(options); })
      stand_in_for_data(options);
    else if constexpr (requires { options.vocabulary; })
      if (options.vocabulary == 0) options.vocabulary = 1;
  }
  void set_context() override {
    if constexpr (requires { options.tokens(); }) options.context = options.tokens();
  }
  std::int64_t balanced() const override { return balanced_width(options); }
  void balance(std::int64_t width) override { set_balanced_width(options, width); }
  bool feeds_forward() const override {
    return requires { options.feed_forward; };
  }
  bool of_heads() const override {
    if constexpr (requires { Options::layers_have_heads; }) return Options::layers_have_heads;
    return true;
  }
  std::int64_t heads() const override { return output_heads(options); }
  nn::MechanismText text(std::string_view what) const override { return mechanism_text(options, what); }
  const ModelEntry& entry() const override { return model_entry(options); }

  Options options;
};

}  // namespace cogwheel::runs
