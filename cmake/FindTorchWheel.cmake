# Finds libtorch inside an installed torch wheel, CPU or CUDA, without torch's own CMake files (those stop where a CUDA
# wheel meets a machine without a CUDA toolkit).
#
# Input:  TORCH_PYTHON, the Python whose torch is meant; else Python_EXECUTABLE, which pip's builds set, or python3.
# Output: TorchWheel::Torch, TorchWheel_VERSION, TorchWheel_ROOT.
if(NOT TORCH_PYTHON AND Python_EXECUTABLE)
  set(TORCH_PYTHON ${Python_EXECUTABLE} CACHE FILEPATH "The Python whose torch is meant")
endif()
find_program(TORCH_PYTHON NAMES python3 REQUIRED)
execute_process(
  COMMAND ${TORCH_PYTHON} -I -c
          "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch').origin).parent.as_posix())"
  OUTPUT_VARIABLE TorchWheel_ROOT
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
  RESULT_VARIABLE torch_missing)
if(torch_missing)
  message(FATAL_ERROR "torch: expected in the environment of ${TORCH_PYTHON}, got none; ./quickstart --setup-only makes one")
endif()

file(STRINGS ${TorchWheel_ROOT}/version.py version_line REGEX "^__version__")
string(REGEX MATCH "[0-9]+\\.[0-9]+(\\.[0-9]+)?" TorchWheel_VERSION "${version_line}")
foreach(name torch torch_cpu c10)
  find_library(TorchWheel_${name} ${name} PATHS ${TorchWheel_ROOT}/lib NO_DEFAULT_PATH NO_CACHE)
endforeach()

# One OpenMP runtime in a process: the one that the wheel brings, under whatever name its build gave it.
file(GLOB wheel_openmp ${TorchWheel_ROOT}/lib/libgomp*.so* ${TorchWheel_ROOT}/../torch.libs/libgomp*.so*)
if(wheel_openmp)
  list(GET wheel_openmp 0 TorchWheel_openmp)
else()
  set(TorchWheel_openmp gomp)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TorchWheel
  REQUIRED_VARS TorchWheel_ROOT TorchWheel_torch TorchWheel_torch_cpu TorchWheel_c10
  VERSION_VAR TorchWheel_VERSION)

add_library(TorchWheel::Torch INTERFACE IMPORTED)
target_include_directories(TorchWheel::Torch SYSTEM INTERFACE
  ${TorchWheel_ROOT}/include ${TorchWheel_ROOT}/include/torch/csrc/api/include)
# at::parallel_for silently runs serially in a file compiled without -fopenmp.
target_compile_options(TorchWheel::Torch INTERFACE -fopenmp)
# torch bundles fmt 12 in its include folder, Debian brings fmt 9: header-only takes one of them throughout.
target_compile_definitions(TorchWheel::Torch INTERFACE FMT_HEADER_ONLY)
# --no-as-needed: libtorch.so registers nothing that our code names, yet pulls in libtorch_cuda.so of a CUDA wheel.
target_link_libraries(TorchWheel::Torch INTERFACE
  -Wl,--push-state,--no-as-needed ${TorchWheel_torch} ${TorchWheel_torch_cpu} ${TorchWheel_c10} -Wl,--pop-state
  ${TorchWheel_openmp})
