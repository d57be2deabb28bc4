#include "points/genetic.hpp"

#include <algorithm>
#include <limits>

namespace dbanon {

// Assigns records in random order, k to a class; the rest join random classes.
Genetic::Genes Genetic::random_genes() {
    std::vector<std::int32_t> order(table_.n);
    for (std::int32_t i = 0; i < table_.n; ++i) order[i] = i;
    for (std::int32_t i = table_.n - 1; i > 0; --i) {
        std::swap(order[i], order[random_.below(i + 1)]);
    }
    Genes genes(order.size());
    for (std::int32_t i = 0; i < table_.n; ++i) {
        const std::int32_t at = i / k_ < classes_ ? i / k_ : random_.below(classes_);
        genes[order[i]] = at;
    }
    repair(genes);
    return genes;
}

// A random record of a class, or for -1 of any class larger than k; -1 if there is none.
std::int32_t Genetic::draw_member(const Genes& genes, std::int32_t drawn_class) {
    std::int32_t count = 0, best = -1;
    for (std::int32_t i = 0; i < table_.n; ++i) {
        const std::int32_t at = genes[i];
        const bool is_eligible = drawn_class < 0 ? size_[at] > k_ : at == drawn_class;
        if (is_eligible && random_.below(++count) == 0) best = i;
    }
    return best;
}

// Classes of 1 to k - 1 records are filled from larger ones or dissolved, those of 2k or more
// split.
void Genetic::repair(Genes& genes) {
    size_.assign(classes_, 0);
    for (const std::int32_t at : genes) ++size_[at];
    const auto move = [&](std::int32_t id, std::int32_t into) {
        std::int32_t& gene = genes[id];
        --size_[gene];
        gene = into;
        ++size_[gene];
    };
    for (std::int32_t at = 0; at < classes_; ++at) {
        std::int32_t& size = size_[at];
        while (size > 0 && size < k_) {
            const std::int32_t id = draw_member(genes, -1);
            if (id >= 0) {
                move(id, at);
                continue;
            }
            // No class can spare a record: dissolve this one into random classes.
            while (size > 0) {
                std::int32_t into = random_.below(classes_);
                while (into == at || size_[into] == 0) {
                    into = (into + 1) % classes_;
                }
                move(draw_member(genes, at), into);
            }
        }
    }
    for (std::int32_t at = 0; at < classes_; ++at) {
        while (size_[at] >= 2 * k_) {
            // A number is unused: of n / k numbers, all other classes have at least k records, and
            // this one twice that.
            const auto free = std::find(size_.begin(), size_.end(), 0);
            const std::int32_t into = static_cast<std::int32_t>(free - size_.begin());
            for (std::int32_t i = 0; i < k_; ++i) move(draw_member(genes, at), into);
        }
    }
}

double Genetic::loss(const Genes& genes) {
    const std::size_t p = table_.p;
    size_.assign(classes_, 0);
    sum_.assign(classes_, p);
    for (std::int32_t i = 0; i < table_.n; ++i) {
        const std::size_t at = genes[i];
        ++size_[at];
        for (std::size_t j = 0; j < p; ++j) sum_.row(at)[j] += table_.row(i)[j];
    }
    double total = 0.0;
    for (std::int32_t i = 0; i < table_.n; ++i) {
        const std::size_t at = genes[i];
        for (std::size_t j = 0; j < p; ++j) {
            const double gap = table_.row(i)[j] - sum_.row(at)[j] / size_[at];
            total += gap * gap;
        }
    }
    return total;
}

std::size_t Genetic::draw_parent(const std::vector<double>& fitness, double total) {
    double left = random_.uniform() * total;
    for (std::size_t i = 0; i + 1 < fitness.size(); ++i) {
        left -= fitness[i];
        if (left < 0.0) return i;
    }
    return fitness.size() - 1;
}

Coroutine Genetic::run() {
    const std::size_t count = settings_.population;
    const std::int64_t work_per_individual = std::int64_t{table_.n} * (table_.p + 4);
    std::vector<Genes> population, children;
    for (std::size_t i = 0; i < count; ++i) {
        population.push_back(random_genes());
        work_.left -= work_per_individual;
        if (work_.is_spent()) co_yield nullptr;
    }
    std::vector<double> fitness(count);
    for (std::int32_t generation = 0;; ++generation) {
        std::size_t best = 0;
        double total = 0.0;
        for (std::size_t i = 0; i < count; ++i) {
            const double fit = 1.0 / (1.0 + loss(population[i]));
            fitness[i] = fit;
            total += fit;
            if (fit > fitness[best]) best = i;
            work_.left -= 3 * work_per_individual;
            if (work_.is_spent()) co_yield nullptr;
        }
        if (generation == settings_.generations) {
            std::swap(population[0], population[best]);
            break;
        }
        children.assign(1, population[best]);
        while (children.size() < count) {
            Genes child = population[draw_parent(fitness, total)];
            const Genes& second_parent = population[draw_parent(fitness, total)];
            if (random_.uniform() < settings_.crossover) {
                const std::int32_t from = random_.below(table_.n);
                std::copy(second_parent.begin() + from, second_parent.end(), child.begin() + from);
            }
            for (std::int32_t& gene : child) {
                if (random_.uniform() < settings_.mutation) gene = random_.below(classes_);
            }
            repair(child);
            children.push_back(std::move(child));
        }
        population.swap(children);
        fraction_done_ = (generation + 1.0) / (settings_.generations + 1.0);
    }
    std::vector<std::int32_t> number(classes_, -1);
    std::int32_t next = 0;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        std::int32_t& label = number[population[0][id]];
        if (label < 0) label = next++;
        assign(id, label);
    }
}

}  // namespace dbanon
