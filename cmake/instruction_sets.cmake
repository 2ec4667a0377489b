# Which instruction sets kernels are built for. Sets in the scope of the caller:
#   instruction_sets  "<name>:<Highway target>", best first. Each is a translation unit of its own
#                     (attention/kernels/cpu/isa_begin.h says why).
#   complete_isas     the names of those for which every row map gets a kernel; the others get a few, for the tests.
option(COGWHEEL_ALL_ISAS "Kernels for every instruction set of this architecture, for other machines than this one" OFF)
option(COGWHEEL_PORTABLE_KERNELS "With tests or for every machine: kernels that run anywhere too (emulated vectors)" ON)

set(portable portable:HWY_EMU128)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(instruction_sets avx512:HWY_AVX3 avx2:HWY_AVX2 ${portable})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(instruction_sets neon:HWY_NEON)
else()
  set(instruction_sets ${portable})
endif()

# What this machine runs best, by the program that Highway's own detection makes.
if(NOT DEFINED COGWHEEL_BEST_TARGET AND NOT CMAKE_CROSSCOMPILING)
  try_run(status compiled ${PROJECT_BINARY_DIR}/best_target SOURCES ${CMAKE_CURRENT_LIST_DIR}/best_target.cpp
    LINK_LIBRARIES PkgConfig::HWY CXX_STANDARD 20 RUN_OUTPUT_VARIABLE target COMPILE_OUTPUT_VARIABLE messages)
  if(NOT compiled OR NOT status EQUAL 0)
    message(FATAL_ERROR "best instruction set: expected a program that finds it, got ${messages} ${status}")
  endif()
  set(COGWHEEL_BEST_TARGET ${target} CACHE INTERNAL "Highway's name of the best instruction set of this machine")
endif()

if(NOT COGWHEEL_ALL_ISAS AND NOT CMAKE_CROSSCOMPILING)
  list(FILTER instruction_sets INCLUDE REGEX ":(${COGWHEEL_BEST_TARGET}|HWY_EMU128)$")
endif()
# Only tests and other machines have a use for them where there are better ones.
if(NOT (COGWHEEL_PORTABLE_KERNELS AND (COGWHEEL_TESTS OR COGWHEEL_ALL_ISAS)) AND NOT instruction_sets STREQUAL portable)
  list(REMOVE_ITEM instruction_sets ${portable})
endif()

set(complete_isas ${instruction_sets})
if(NOT COGWHEEL_ALL_ISAS AND NOT instruction_sets STREQUAL portable)
  list(REMOVE_ITEM complete_isas ${portable})
endif()
list(TRANSFORM complete_isas REPLACE ":.*" "")
