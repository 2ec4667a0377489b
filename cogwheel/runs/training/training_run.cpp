#include "cogwheel/runs/training/training_run.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "cogwheel/core/process/memory.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/distributed/ranks.h"
#include "cogwheel/nn/blocks/recomputed_blocks.h"
#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/ranks/awaited_weights.h"
#include "cogwheel/nn/weights/device_name.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/ops/support/engine.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/training/batch_prefetcher.h"
#include "cogwheel/runs/training/divided_moments.h"
#include "cogwheel/runs/training/divided_weights.h"
#include "cogwheel/runs/training/gradient_exchange.h"
#include "cogwheel/runs/training/gradient_sum.h"
#include "cogwheel/runs/training/learned_parameters.h"
#include "cogwheel/runs/training/muon.h"
#include "cogwheel/runs/training/optimizer.h"
#include "cogwheel/runs/training/shared_slices.h"
#include "cogwheel/runs/training/weight_average.h"
#include "cogwheel/runs/training/width_scaling.h"

namespace cogwheel::runs {
namespace {

// The system would grant more memory than it has, and kill this process or another when the memory is used.
void expect_memory(std::int64_t parameters, const TrainingOptions& training) {
  // Weight, gradient and two moments; the average of weights is a fifth. Ranks that share heads divide most of them,
  // but have the whole weights at the start and in evaluations, in the place of gradients. How many divide moments is
  // not known here.
  const double each = (training.parallel_divide_moments ? 2 : 4) + (training.ema > 0 ? 1 : 0),
               held = 1 + (each - 1) / static_cast<double>(training.parallel_tensor);
  const double needed = held * sizeof(float) * static_cast<double>(parameters);
  const auto there = static_cast<double>(physical_memory_bytes());
  const auto gibibytes = [](double bytes) { return std::to_string(std::llround(bytes / (1 << 30))) + " GiB"; };
  if (there > 0 && needed > there)
    throw Error(expected_got("memory", gibibytes(needed) + " for " + std::to_string(parameters) + " parameters",
                             gibibytes(there)));
}

RunConfig configuration(const ModelOptions& model, const TrainingOptions& training, const Task& task) {
  RunConfig config;
  config.model = model;
  config.training = training;
  return task.completed(std::move(config));
}

at::Device device_of(const TrainingOptions& options) {
  check(options);
  return nn::device_named("training.device", options.device);
}

std::shared_ptr<torch::nn::Module> trainable_model(const RunConfig& config) {
  expect_trainable(config);
  const nn::PlaceParameters here(device_of(config.training));
  return make_model(config.model);
}

std::vector<std::pair<std::string, at::Tensor>> named_parameters(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (const auto& parameter : model.named_parameters()) parameters.emplace_back(parameter.key(), parameter.value());
  return parameters;
}

// The dropout of a slice of a step: the same for every mechanism, so that runs paired by seed drop the same elements.
std::uint64_t dropout_seed(std::uint64_t seed, std::int64_t step, std::int64_t slice, std::int64_t slices) {
  const std::uint64_t of_step = nn::derived_seed(seed, static_cast<std::uint64_t>(step));
  return slices == 1 ? of_step : nn::derived_seed(of_step, static_cast<std::uint64_t>(slice));
}

// In the order of the blocks, of which a pass goes through one after the other.
std::vector<at::Tensor> parameters_in_blocks(const torch::nn::Module& model) {
  std::vector<at::Tensor> parameters;
  for (const auto& module : model.modules())
    if (module->as<nn::TransformerBlockImpl>() != nullptr)
      for (const at::Tensor& each : module->parameters()) parameters.push_back(each);
  return parameters;
}

// What every rank is told about a step of another, besides its losses.
struct StepOfRank {
  bool stopped, wants_checkpoint;
  double seconds;  // until its gradients were there
  std::vector<double> losses;

  std::vector<double> numbers() const {
    std::vector<double> numbers{stopped ? 1.0 : 0.0, wants_checkpoint ? 1.0 : 0.0, seconds};
    numbers.insert(numbers.end(), losses.begin(), losses.end());
    return numbers;
  }
  static StepOfRank of(const std::vector<double>& numbers) {
    return {numbers.at(0) != 0, numbers.at(1) != 0, numbers.at(2), {numbers.begin() + 3, numbers.end()}};
  }
};

}  // namespace

void expect_trainable(const RunConfig& config) {
  expect_scalable(config);
  ops::check_engine_choice();
  if (device_of(config.training).is_cpu()) expect_memory(parameter_count(config.model), config.training);
}

TrainingRun::TrainingRun(const ModelOptions& model, const TrainingOptions& training, std::shared_ptr<const Task> task,
                         const distributed::Ranks* ranks)
    : task_(std::move(task)),
      ranks_(ranks == nullptr ? &distributed::one_rank : ranks),
      config_(runs::configuration(model, training, *task_)),
      model_(trainable_model(config_)),
      watch_(config_.training.spike_deviations) {
  const TrainingOptions& options = config_.training;
  const std::int64_t count = ranks_->count();
  if (const at::Device device = device_of(options); count > 1 && device.has_index())
    throw UsageError(expected_got("training.device",
                                  device.str().substr(0, device.str().find(':')) + ", of which each rank sees its own",
                                  options.device));
  if (const std::int64_t of_slice = ranks_of_slice();
      count % of_slice != 0 || !std::has_single_bit(static_cast<std::uint64_t>(count / of_slice)))
    throw UsageError(
        of_slice == 1
            ? expected_got("ranks", "a power of two, as their sums are a binary tree", std::to_string(count))
            : expected_got("ranks",
                           fmt::format("parallel.context × parallel.tensor, {}, times a power of two", of_slice),
                           std::to_string(count)));
  if (const std::int64_t sharing = count / ranks_of_slice(); options.micro_batches % sharing != 0)
    throw UsageError(expected_got(
        "training.micro_batches",
        fmt::format("a multiple of the {0} ranks, which share them (as of --set training.micro_batches={0})", sharing),
        std::to_string(options.micro_batches)));
  if (ranks_of_slice() > 1) task_->expect_shared(config_.model, options.parallel_context, options.parallel_tensor);
  if (options.recompute > 0 && parameters_in_blocks(*model_).empty())
    throw UsageError(expected_got("training.recompute",
                                  "0: the model of " + task_->description().name + " has no transformer blocks",
                                  std::to_string(options.recompute)));
  const std::set<std::string> hidden = options.optimizer == "muon" ? hidden_matrices(*model_) : std::set<std::string>();
  if (options.optimizer == "muon" && hidden.empty())
    throw UsageError(expected_got("training.optimizer",
                                  "adamw: the model of " + task_->description().name + " has no hidden matrices",
                                  options.optimizer));
  if (options.sample_every > 0)
    for (const std::string& prompt : options.prompts) task_->expect_continuable(prompt);
  task_->initialize(*model_, options.seed);
  const WidthScaling scaling = width_scaling(config_, *model_);
  scale_first_values(scaling, config_, *model_);
  if (ranks_of_slice() > 1)
    shared_ = std::make_shared<SharedSlices>(*ranks_, options.parallel_context, options.parallel_tensor);
  divided_ =
      std::make_unique<DividedWeights>(*model_, ranks_->rank() % options.parallel_tensor, options.parallel_tensor);
  divided_->set_group([shared = shared_]() -> const distributed::Group& { return shared->of_heads(); });
  if (options.parallel_divide_moments)
    moments_ = std::make_unique<DividedMoments>(*ranks_, parameters_in_blocks(*model_));
  phases_ = task_->phases();
  learned_ = learned_parameters(*model_, options, *task_);
  std::vector<std::pair<std::string, at::Tensor>> learned;
  std::map<std::string, std::int64_t> first_steps;
  for (const LearnedParameter& each : learned_) {
    learned.emplace_back(each.name, each.value);
    first_steps[each.name] = each.first_step;
  }
  optimizer_ = std::make_unique<Optimizer>(learned, options, hidden, first_steps, divided_->shares(scaling),
                                           divided_.get(), moments_.get());
  if (!device_of(options).is_cpu()) prefetcher_ = std::make_unique<BatchPrefetcher>(task_);
  if (options.ema > 0) average_ = std::make_unique<WeightAverage>(named_parameters(*model_), options.ema);
}

TrainingRun::TrainingRun(TrainingRun&&) noexcept = default;
TrainingRun& TrainingRun::operator=(TrainingRun&&) noexcept = default;
TrainingRun::~TrainingRun() = default;

std::int64_t TrainingRun::ranks_of_slice() const {
  return config_.training.parallel_context * config_.training.parallel_tensor;
}

std::int64_t TrainingRun::slices_of_a_rank() const {
  return config_.training.micro_batches / (ranks_->count() / ranks_of_slice());
}

std::int64_t TrainingRun::first_slice() const { return ranks_->rank() / ranks_of_slice() * slices_of_a_rank(); }

double TrainingRun::sum_of_shared(double own) const {
  if (!shared_) return own;
  constexpr const char* what = "the loss of a slice that ranks share";
  return shared_->all().gather(at::full({1}, own, at::kDouble), what).result(what).sum().item<double>();
}

DataPlace TrainingRun::after(const DataPlace& place) const {
  return {place.batches + 1, place.rows + config_.training.batch};
}

DataPlace TrainingRun::next_place(DataPlace place) const {
  const std::int64_t rows = config_.training.batch;
  const auto touched = [&](const std::pair<std::int64_t, std::int64_t>& left_out) {
    return place.rows < left_out.first + left_out.second && left_out.first < place.rows + rows;
  };
  while (std::any_of(progress_.left_out.begin(), progress_.left_out.end(), touched)) place = after(place);
  return place;
}

const Phase& TrainingRun::phase_of(std::int64_t step) const { return phases_[phase_at(phases_, step)]; }

void TrainingRun::begin_phase() {
  const std::int64_t step = progress_.steps_done;
  require_gradients(*model_, learned_, step);
  if (step == 0 || phase_at(phases_, step) == phase_at(phases_, step - 1)) return;
  watch_ = SpikeWatch(config_.training.spike_deviations);
  progress_.loss_sum = progress_.norm_sum = 0;
  progress_.loss_count = 0;
}

void TrainingRun::leave_out(const LeftOutRows& rows) { progress_.left_out.insert(rows.begin(), rows.end()); }

void TrainingRun::expect_finite(double value, std::string_view what, std::int64_t step) {
  if (!std::isfinite(value))
    throw NonFiniteLoss(
        expected_got(what, "a finite number",
                     std::string(std::isnan(value) ? "NaN" : "infinity") + " at step " + std::to_string(step)));
}

bool TrainingRun::is_measured_step() const {
  const TrainingOptions& options = config_.training;
  const std::int64_t step = progress_.steps_done + 1;
  return is_due(options, options.evaluate_every, step) || is_due(options, options.report_every, step);
}

std::vector<double> TrainingRun::losses_of_slices(const Batch& batch, const std::atomic<bool>* stop, GradientSum& sum,
                                                  GradientExchange& exchange) {
  const TrainingOptions& options = config_.training;
  const std::int64_t slices = options.micro_batches, own = slices_of_a_rank(), first = first_slice();
  const auto all = static_cast<double>(task_->counted(batch));
  if (all == 0)
    throw Error(expected_got("batch of step " + std::to_string(progress_.steps_done + 1), "something to predict",
                             "none: all targets are left out"));
  optimizer_->zero_gradients();
  std::vector<double> losses;
  for (std::int64_t slice = first; slice < first + own; ++slice) {
    if (sum_of_shared(stop != nullptr && stop->load() ? 1 : 0) > 0) break;
    Batch part = slices == 1 ? batch : slice_of(batch, slice, slices);
    if (shared_) part.texts = shared_->texts(), part.heads = shared_->heads();
    const double share = slices == 1 ? 1 : static_cast<double>(task_->counted(part)) / all;
    losses.push_back(0);
    if (share > 0) {
      const at::Tensor loss = [&] {
        const nn::BFloat16Products products(options.multiplies_bfloat16());
        const nn::RecomputedBlocks recomputed(options.recompute);
        if (moments_) moments_->wait_for_rest_of_model();
        const nn::AwaitedWeights awaited([this](const torch::nn::Module& block) {
          if (moments_) moments_->wait_for(block);
        });
        return task_->loss_in(phase_of(progress_.steps_done), *model_, part,
                              dropout_seed(options.seed, progress_.steps_done, slice, slices));
      }();
      weights_have_come();
      losses.back() = share * sum_of_shared(loss.item<double>());
      if (!std::isfinite(losses.back())) return losses;
      if (sum.is_last_slice()) exchange.begin();
      (share == 1 ? loss : loss * share).backward();
    }
    sum.take_slice();
  }
  weights_have_come();  // where no slice was made, too: what follows is exchanged in one order on all ranks
  return losses;
}

void TrainingRun::weights_have_come() {
  if (moments_) moments_->wait_for_all();
  if (std::exchange(average_waits_, false)) average_->update();
}

double TrainingRun::waited_for_weights() const { return moments_ ? moments_->waited() : 0; }

void TrainingRun::take_all_weights() {
  const auto start = WallClock::now();
  const double waited = waited_for_weights();
  weights_have_come();
  progress_.exchange_seconds += waited_for_weights() - waited;
  progress_.seconds += seconds_since(start);
}

std::optional<double> TrainingRun::differentiate(const Batch& batch, const std::atomic<bool>* stop) {
  const auto start = WallClock::now();
  const std::int64_t own = slices_of_a_rank();
  const double waited = waited_for_weights();
  const std::string step = "step " + std::to_string(progress_.steps_done + 1);
  GradientSum sum(optimizer_->values(), own);
  GradientExchange exchange(*ranks_, *optimizer_, sum, "gradients of " + step, shared_.get(), *divided_,
                            moments_.get());
  StepOfRank here{.stopped = false,
                  .wants_checkpoint = wants_checkpoint_,
                  .seconds = 0,
                  .losses = losses_of_slices(batch, stop, sum, exchange)};
  here.stopped = std::ssize(here.losses) < own && (here.losses.empty() || std::isfinite(here.losses.back()));
  here.seconds = seconds_since(start) - exchange.waited() - (waited_for_weights() - waited);
  slices_seconds_ += here.seconds;
  exchange.finish();
  double value = 0, slowest = 0;
  bool stopped = false;
  const std::vector<std::vector<double>> all = ranks_->gathered(here.numbers(), "losses of " + step);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const StepOfRank there = StepOfRank::of(all[rank]);
    if (rank == 0) wants_checkpoint_ = there.wants_checkpoint;
    stopped |= there.stopped;
    slowest = std::max(slowest, there.seconds);
    if (rank % static_cast<std::size_t>(ranks_of_slice()) != 0) continue;  // as of the one before
    for (const double loss : there.losses)
      if (std::isfinite(value)) value += loss;
  }
  if (stopped) return std::nullopt;
  if (!std::isfinite(value) || ranks_->count() == 1) return value;
  progress_.slowest_seconds += slowest;
  progress_.exchange_seconds += seconds_since(start) - slowest;
  return value;
}

std::optional<double> TrainingRun::step(const std::atomic<bool>* stop) {
  const auto start = WallClock::now();
  const TrainingOptions& options = config_.training;
  begin_phase();
  const DataPlace place = next_place(progress_.place);
  const Batch batch = prefetcher_ ? prefetcher_->take(*model_, options, place) : task_->batch(*model_, options, place);
  const double waiting = seconds_since(start);
  double norm = 0, waited = 0;
  std::optional<double> value;
  try {
    value = differentiate(batch, stop);
    // Before the host waits for the gradients.
    if (prefetcher_ && progress_.steps_done + 1 < options.steps)
      prefetcher_->prefetch(*model_, options, next_place(after(place)));
    waited = waited_for_weights();
    if (value) {
      if (std::isfinite(*value)) norm = optimizer_->clip_gradients();
      if (const auto spike = watch_.spike_in(*value, norm))
        throw LossSpike("step " + std::to_string(progress_.steps_done + 1) + ": " + *spike);
      expect_finite(*value, "training loss", progress_.steps_done + 1);
      expect_finite(norm, "norm of the gradient", progress_.steps_done + 1);
    }
  } catch (...) {
    optimizer_->zero_gradients();
    throw;
  }
  if (!value) {
    optimizer_->zero_gradients();
    return std::nullopt;
  }
  const double rate = learning_rate(options, progress_.steps_done);
  if (is_measured_step())
    update_over_weight_ = optimizer_->measured_step(rate);
  else
    optimizer_->step(rate);
  progress_.exchange_seconds += waited_for_weights() - waited;
  average_waits_ = average_ != nullptr;
  if (!moments_ || ranks_->count() == 1) weights_have_come();
  watch_.add(*value, norm);
  ++progress_.steps_done;
  progress_.place = after(place);
  progress_.tokens += batch.tokens;
  progress_.last_train_loss = *value;
  progress_.loss_sum += *value;
  progress_.norm_sum += norm;
  progress_.waiting_seconds += waiting;
  ++progress_.loss_count;
  progress_.seconds += seconds_since(start);
  return value;
}

double TrainingRun::step() { return *step(nullptr); }

void TrainingRun::skip_to(std::int64_t step) {
  optimizer_->set_steps_done(step);
  progress_.steps_done = step;
}

TrainingStatus TrainingRun::train(const TrainingHooks& hooks) {
  const TrainingOptions& options = config_.training;
  const auto due = [&](std::int64_t every) { return is_due(options, every, progress_.steps_done); };
  auto saved = WallClock::now();
  const auto is_late = [&] {
    return options.checkpoint_minutes > 0 && seconds_since(saved) >= 60 * options.checkpoint_minutes;
  };
  const auto checkpoint = [&] {
    if (hooks.checkpoint) hooks.checkpoint();
    saved = WallClock::now();
  };
  try {
    while (progress_.steps_done < options.steps) {
      wants_checkpoint_ = is_late();
      // Several ranks stop together, where they next exchange what they have.
      const bool asked = ranks_->count() == 1 && hooks.stop != nullptr && hooks.stop->load();
      if (asked || !step(hooks.stop)) {
        checkpoint();
        return TrainingStatus::stopped;
      }
      const std::optional<double> best = progress_.best;
      const bool evaluation_due = due(options.evaluate_every), sample_due = due(options.sample_every);
      // Else they come while the next step goes forward.
      if (evaluation_due || sample_due || due(options.checkpoint_every) || wants_checkpoint_) take_all_weights();
      if (evaluation_due || due(options.report_every)) {
        StepReport report = make_report();
        if (evaluation_due) evaluate(report);
        if (hooks.report) hooks.report(report);
      }
      if (options.sample_every > 0 && sample_due) continue_prompts(hooks);
      if (hooks.improved && progress_.best != best) hooks.improved();
      // Of ranks that save together, the first one's clock before the step.
      if (due(options.checkpoint_every) || (saves_together() ? wants_checkpoint_ : is_late())) checkpoint();
    }
  } catch (const NonFiniteLoss& error) {
    problem_ = error.what();
    return TrainingStatus::non_finite;
  } catch (const LossSpike& error) {
    problem_ = error.what();
    return TrainingStatus::spike;
  }
  return TrainingStatus::finished;
}

}  // namespace cogwheel::runs
