#include "cogwheel/attention/authoring/authoring.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iomanip>
#include <mutex>
#include <sstream>

#include "cogwheel/attention/authoring/argument_names.h"
#include "cogwheel/attention/authoring/compiler.h"
#include "cogwheel/attention/authoring/derivatives_check.h"
#include "cogwheel/attention/authoring/header_text.h"
#include "cogwheel/attention/authoring/headers.h"
#include "cogwheel/attention/authoring/module.h"
#include "cogwheel/attention/authoring/user_header.h"
#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/pairwise/added_kernels.h"
#include "cogwheel/attention/mechanisms/added_law.h"
#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/core/cache/file_cache.h"
#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::authoring {
namespace fs = std::filesystem;
namespace {

// The flags of the library's kernels.
const std::vector<std::string>& flags() {
  static const std::vector<std::string> words{
      "-std=c++20",          "-O3", "-DNDEBUG",           "-fPIC", "-shared", "-ffp-contract=off",
      "-DHWY_SHARED_DEFINE", "-w",  "-fvisibility=hidden"};
  return words;
}

std::string highway_target(std::string_view isa) {
  if (isa == "avx512") return "HWY_AVX3";
  if (isa == "avx2") return "HWY_AVX2";
  if (isa == "neon") return "HWY_NEON";
  return "HWY_EMU128";
}

// The header to compile.
struct Source {
  std::string name;        // for messages
  std::string map;         // the struct
  std::string text;        // of the header
  fs::path path;           // of a user's file, which messages name; empty for a definition
  std::string definition;  // for the catalogue
  bool is_recurrent = false;
};

// A law needs no kernel of its own; a row map is compiled within the region of a target.
std::string translation_unit_of_law(const Source& source, const fs::path& header, const std::string& stamp) {
  std::ostringstream unit;
  unit << "#define COGWHEEL_MODULE_STAMP \"" << stamp << "\"\n"
       << "#include \"" << header.filename().string() << "\"\n"
       << "namespace cogwheel { using AuthoredMap = " << source.map << "; }\n"
       << "#include \"cogwheel/attention/authoring/law_module_body.h\"\n";
  return unit.str();
}

std::string translation_unit(const Source& source, const fs::path& header, std::string_view isa,
                             const std::string& stamp) {
  std::ostringstream unit;
  unit << "#define COGWHEEL_HWY_TARGET " << highway_target(isa) << "\n"
       << "#define COGWHEEL_MODULE_STAMP \"" << stamp << "\"\n"
       << "#include \"cogwheel/attention/kernels/pairwise/pairwise.h\"\n"
       << "#include \"cogwheel/attention/authoring/trace.h\"\n"
       << "#include \"cogwheel/attention/kernels/cpu/isa_begin.h\"\n"
       << "#include \"cogwheel/attention/authoring/module.h\"\n"
       << "#include \"" << header.filename().string() << "\"\n"  // in the same folder
       << "namespace cogwheel { using AuthoredMap = " << source.map << "; }\n"
       << "#include \"cogwheel/attention/authoring/module_body.h\"\n"
       << "#include \"cogwheel/attention/kernels/cpu/isa_end.h\"\n";
  return unit.str();
}

class EndOfProgress {
 public:
  EndOfProgress(const CompileProgress& progress, const std::string& name) : progress_(progress), name_(name) {
    if (progress_.begin) progress_.begin(name_);
  }
  EndOfProgress(const EndOfProgress&) = delete;
  EndOfProgress& operator=(const EndOfProgress&) = delete;
  ~EndOfProgress() {
    if (progress_.end) progress_.end(name_);
  }

 private:
  const CompileProgress& progress_;
  std::string name_;
};

void compile(const Source& source, const Compiler& compiler, const fs::path& headers, std::string_view isa,
             const std::string& stamp, const fs::path& folder, const fs::path& target) {
  // Compile the text that was read, even if the user's file has changed since; messages name the user's file.
  const fs::path header = folder / (source.name + ".h"),
                 named = source.path.empty() ? fs::path(source.name) : source.path;
  std::ostringstream text;
  text << "#line 1 " << std::quoted(named.string()) << "\n" << source.text;
  write_file(header, text.str());
  const fs::path unit = folder / "module.cpp";
  write_file(unit, source.is_recurrent ? translation_unit_of_law(source, header, stamp)
                                       : translation_unit(source, header, isa, stamp));
  std::vector<std::string> command = compiler.command;
  command.insert(command.end(), flags().begin(), flags().end());
  command.insert(command.end(), {"-I" + headers.string(), "-o", target.string(), unit.string()});
  // The module uses the products and workspaces of the library that loads it. A program with Cogwheel linked in exports
  // them itself (-rdynamic).
  const fs::path library = this_library();
  if (library.filename().string().find(".so") != std::string::npos) command.push_back(library.string());
  const Finished finished = run_compiler(command);
  std::string refusal;
  if (finished.status != 0)
    refusal = refusal_of_the_world(finished);
  else if (!fs::exists(target))
    refusal = "no module from " + command.front();
  if (!refusal.empty())
    throw Error(expected_got(source.name,
                             "a compiler that works, with enough memory and space in " + folder.parent_path().string(),
                             refusal));
  if (finished.status != 0) throw UsageError(first_error(finished.output, named, source.text));
}

// What the module of that file holds. It is never closed: the catalogue may point into it.
template <class Contents>
Contents open_module(const fs::path& path, const std::string& stamp, const char* symbol) {
  using Fill = void (*)(Contents*);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(expected_got(path.string(), "a module that loads", ::dlerror()));
  const auto* found = static_cast<const char*>(::dlsym(library, module_stamp_symbol));
  const auto fill = reinterpret_cast<Fill>(::dlsym(library, symbol));
  if (found == nullptr || fill == nullptr || stamp != found) {
    ::dlclose(library);
    throw Error(expected_got(path.string(), "a module for " + stamp, found == nullptr ? "none" : found));
  }
  Contents contents{};
  fill(&contents);
  return contents;
}

void check_own_name(const Source& source, std::string_view member, std::string_view name) {
  if (name != source.name)
    throw UsageError(expected_got(source.path.string(),
                                  "a " + std::string(member) + ".name equal to the file's name, " + source.name,
                                  std::string(name)));
}

const Mechanism& register_row_map(const Source& source, const MechanismModule& module, std::string_view isa) {
  check_parameter_names(module.description.name, module.description.parameters);
  check_own_name(source, "description", module.description.name);
  check_derivatives(source.name, module.scalar,
                    module.parameter_defaults.empty() ? module.parameter_initial : module.parameter_defaults);
  add_pairwise_kernels(source.name, isa, module.of_float, module.of_double);
  add_row_map_values(source.name, module.values_of_float, module.values_of_double);
  add_row_map_trace(source.name, module.record);
  return add_mechanism({.description = module.description,
                        .has_energy = module.has_energy,
                        .parameter_defaults = module.parameter_defaults,
                        .parameter_initial = module.parameter_initial,
                        .scalar = &module.scalar,
                        .definition = source.definition});
}

const Mechanism& compile_and_register(const Source& source, const CompileProgress& progress) {
  // One at a time in a process; the cache serialises processes.
  static std::mutex registering;
  const std::scoped_lock lock(registering);
  const std::string isa(chosen_isa());
  const auto has_kernel = [&] {
    const auto kernels = available_kernels();
    return std::any_of(kernels.begin(), kernels.end(),
                       [&](const KernelEntry& kernel) { return kernel.mechanism == source.name && kernel.isa == isa; });
  };
  if (is_added(source.name, source.definition) && (source.is_recurrent || has_kernel()))
    return find_mechanism(source.name);

  const Compiler compiler = find_compiler();
  const std::string stamp = "Cogwheel " COGWHEEL_VERSION ", headers " + header_fingerprint() + ", " + isa;
  std::string key_text = source.map + "\n" + source.text + "\n" + stamp + "\n" + compiler.identity + "\n";
  for (const std::string& flag : flags()) key_text += flag + " ";
  key_text += this_library().string();
  const fs::path path =
      cached_file({"mechanisms", ".so"}, sha256(key_text), [&](const fs::path& folder, const fs::path& target) {
        const fs::path headers = header_folder();
        const EndOfProgress shown(progress, source.name);
        compile(source, compiler, headers, isa, stamp, folder, target);
      });
  if (!source.is_recurrent)
    return register_row_map(source, open_module<MechanismModule>(path, stamp, module_symbol), isa);
  const auto law = open_module<RecurrentLaw>(path, stamp, recurrent_law_symbol);
  check_own_name(source, "law", law.name);
  return add_recurrent_law(law, source.definition);
}

}  // namespace

CompileProgress progress_on_terminal() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return {.begin = [](const std::string& name) { std::fprintf(stderr, "compiling %s (once) …", name.c_str()); },
          .end = [](const std::string&) { std::fprintf(stderr, "\r\033[K"); }};
}

const Mechanism& define_mechanism(const MechanismDefinition& definition, const CompileProgress& progress) {
  is_added(definition.name, definition.text);  // refuses before a compiler runs
  return compile_and_register({.name = definition.name,
                               .map = defined_struct_name(definition.name),
                               .text = header_of(definition),
                               .path = {},
                               .definition = definition.text},
                              progress);
}

const Mechanism& load_mechanism(const fs::path& header, const CompileProgress& progress) {
  const UserHeader read = read_user_header(header);
  const std::string definition = header.filename().string() + " sha256:" + sha256(read.text);
  is_added(read.name, definition);
  return compile_and_register({.name = read.name,
                               .map = read.map,
                               .text = read.text,
                               .path = fs::absolute(header),
                               .definition = definition,
                               .is_recurrent = read.is_recurrent},
                              progress);
}

std::string option_for(std::string_view definition) {
  const std::size_t hash = definition.find(" sha256:");
  if (hash != std::string_view::npos)
    return "--mechanism-file " + std::string(definition.substr(0, hash)) + " (SHA-256 " +
           std::string(definition.substr(hash + 8, 12)) + "…)";
  return "--define '" + std::string(definition) + "'";
}

void require_mechanism(std::string_view name, std::string_view definition, std::string_view what) {
  if (definition.empty()) return;
  const std::vector<std::string> names = names_of_pattern(name, what);
  const Mechanism* other = nullptr;
  for (const std::string& each : names) {
    const Mechanism* mechanism = mechanism_or_null(each);
    if (mechanism == nullptr)
      throw UsageError(expected_got(what, each + ", which needs " + option_for(definition),
                                    "no such option: nothing is loaded unasked"));
    if (mechanism->definition == definition) return;
    if (other == nullptr || !mechanism->definition.empty()) other = mechanism;
  }
  throw UsageError(
      expected_got(what, definition, other->definition.empty() ? "the built-in one of that name" : other->definition));
}

}  // namespace cogwheel::authoring
