// What a report shows of one trained model besides its results: attention maps, a sample of text, tables of measures,
// figures; and what it loses by weights, keys and values of fewer bits, and past its context.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/nn/weights/number_type.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/runs/measure.h"
#include "cogwheel/runs/shown_figure.h"

namespace cogwheel::runs {

struct AttentionMap {
  std::vector<float> weights;  // [tokens, tokens], row by row; key j of query i at i·tokens + j
};

// Each part may be empty: a task fills those that it has.
struct Inspection {
  std::string mechanism;
  std::int64_t seed = 0;
  std::vector<std::string> tokens = {};              // of the sequence that the maps are of, as text
  std::vector<std::vector<AttentionMap>> maps = {};  // [layers][heads]
  bool whole_maps = false;                           // of tokens that see later ones too
  std::string prompt = {}, sample = {};
  std::vector<pages::TextTable> tables = {};
  MeasuredValues numbers = {};  // of the tables, those that programs ask for
  std::vector<ShownFigure> figures = {};
  std::vector<MeasuresByDifficulty> by_difficulty = {};  // results hold these

  // Weights [layers][heads][tokens · tokens].
  void set_maps(std::vector<std::vector<std::vector<float>>> weights) {
    maps.clear();
    for (auto& layer : weights) {
      maps.emplace_back();
      for (auto& head : layer) maps.back().push_back({std::move(head)});
    }
  }
};

// An inspection that may take longer than each run of a comparison has, as that of `cogwheel evaluate`.
struct ThoroughInspection {
  std::int64_t samples = 0;                        // images to draw and to measure as a whole; 0: none
  std::optional<std::int64_t> sampler_steps = {};  // from noise to image; none: those of SamplerOptions
  std::string sampler = {};                        // its name; empty: the default
  std::filesystem::path inception =
      {};                             // weights of an Inception network; empty: features of a classifier trained here
  std::optional<std::uint64_t> seed;  // of what is drawn; none: that of the run
  // Of its training; none: that of the classifier which the run keeps, or 1,500.
  std::optional<std::int64_t> classifier_steps = {};
  std::filesystem::path references = {};  // moments of other images' features; empty: the task's own images
  std::filesystem::path folder = {};      // of the run, which keeps the classifier
  std::function<void(const std::string&)> progress = [](const std::string&) {};

  bool any() const { return samples > 0 || !inception.empty() || !references.empty(); }
};

// As what a model keeps its weights, and its keys and values while it decodes.
struct KeptNumbers {
  nn::NumberType weights = nn::NumberType::float32, cache = nn::NumberType::float32;
  std::int64_t sink = -1;  // of texts past the context the first `sink` tokens and the newest; below 0: no such texts
  bool narrow() const { return weights != nn::NumberType::float32 || cache != nn::NumberType::float32; }
  bool any() const { return narrow() || sink >= 0; }
};

// Of the same held-out tokens in float32 and with the numbers kept.
struct NarrowingCost {
  KeptNumbers kept;
  std::int64_t tokens = 0;         // whose loss is measured
  double loss = 0, kept_loss = 0;  // in nats a token
  double other_next = 0;           // the share of them after which another token is the likeliest
  // The share of visible scores whose sign is another, of some of these tokens; none where no layer has scores. Of
  // weights, those that are not 0; none where none is negative.
  std::optional<double> flipped_scores = {}, flipped_weights = {};
  // Of longer texts, the loss of the tokens of the first context, of the second, and so on, with the numbers kept.
  std::vector<double> past_context = {};
};

}  // namespace cogwheel::runs
