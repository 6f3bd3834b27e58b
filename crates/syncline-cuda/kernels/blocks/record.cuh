// The record of a chunk of blocks that is written.
#pragma once
#include "blocks/sections.cuh"
#include "blocks/structs.cuh"
#include "container/record.cuh"
