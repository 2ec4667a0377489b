#include "cogwheel/tasks/images/data/stored_images.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/threads_executor.h"
#include "cogwheel/text/held_out_tenth.h"

namespace cogwheel::tasks::images {
namespace {

// Of what it shows, whatever it is called: where two show the same, their labels do not matter.
std::string content_of(const ImageExample& example) {
  Sha256 hash;
  hash.add({reinterpret_cast<const char*>(example.pixels.data()), example.pixels.size()});
  hash.add({reinterpret_cast<const char*>(example.latent.data()), example.latent.size() * sizeof(float)});
  return hash.digits();
}

class StoredImages final : public ImageSource {
 public:
  StoredImages(ImageSetFacts facts, std::shared_ptr<const ImageStore> store, ImageSplit split)
      : store_(std::move(store)), split_(std::move(split)) {
    facts_ = std::move(facts);
    if (split_.held_out.empty()) hold_out_a_tenth();
    if (split_.training.empty()) throw Error(expected_got(name(), "images to train on", "none"));
  }

  std::int64_t images(ImagePart part) const override { return std::ssize(numbers(part)); }
  ImageExample image(ImagePart part, std::int64_t index) const override {
    return store_->image(numbers(part)[static_cast<std::size_t>(index)]);
  }
  std::shared_ptr<const ImageSource> for_tuning() const override {
    return std::make_shared<StoredImages>(facts_, store_, ImageSplit{split_.training, split_.tuning});
  }

 private:
  const std::vector<std::int64_t>& numbers(ImagePart part) const {
    return part == ImagePart::training ? split_.training : split_.held_out;
  }

  void hold_out_a_tenth() {
    std::vector<std::string> contents(split_.training.size());
    std::vector<std::int64_t> classes(split_.training.size());
    for_each_picture(std::ssize(split_.training), [&](std::int64_t place) {
      const auto index = static_cast<std::size_t>(place);
      const ImageExample example = store_->image(split_.training[index]);
      contents[index] = content_of(example);
      classes[index] = example.label;
    });
    const std::vector<bool> held_out = text::held_out_tenth({.keys = contents, .classes = classes});
    std::vector<std::int64_t> training;
    for (std::size_t place = 0; place < contents.size(); ++place)
      (held_out[place] ? split_.held_out : training).push_back(split_.training[place]);
    if (split_.held_out.empty())
      throw Error(expected_got(name(), "two different images or more, one to hold out",
                               contents.empty() ? "none" : "only equal ones"));
    split_.training = std::move(training);
    facts_.sha256 = text::sha256_of_split(facts_.sha256, held_out);
  }

  std::shared_ptr<const ImageStore> store_;
  ImageSplit split_;
};

}  // namespace

void for_each_picture(std::int64_t count, const std::function<void(std::int64_t)>& read) {
  std::mutex mutex;
  std::int64_t first = count;
  std::exception_ptr problem;
  const int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
  ThreadsExecutor(threads).run(count, [&](std::int64_t index, int) {
    try {
      read(index);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (index < first) first = index, problem = std::current_exception();
    }
  });
  if (problem) std::rethrow_exception(problem);
}

std::shared_ptr<const ImageSource> stored_images(ImageSetFacts facts, std::shared_ptr<const ImageStore> store,
                                                 ImageSplit split) {
  return std::make_shared<StoredImages>(std::move(facts), std::move(store), std::move(split));
}

}  // namespace cogwheel::tasks::images
